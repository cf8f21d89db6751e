-- The turnover of a shop: by the hour and city, and the products that sell best.

CREATE STREAM orders (
    id STRING KEY,
    customer STRING,
    items ARRAY<STRUCT<product STRING, quantity INT, price DOUBLE>>
) WITH (kafka_topic='shop-orders', value_format='JSON');

CREATE TABLE customers (id STRING PRIMARY KEY, name STRING, city STRING)
    WITH (kafka_topic='shop-customers', value_format='JSON');

-- A record for each item of an order.
CREATE STREAM items AS
    SELECT id, customer, EXPLODE(items) AS item FROM orders;

-- Each item with its customer.
CREATE STREAM sold AS
    SELECT i.customer AS customer, c.city AS city, i.item->product AS product, i.item->quantity AS quantity,
        i.item->quantity * i.item->price AS amount
    FROM items i LEFT JOIN customers c ON i.customer = c.id;

-- Each hour once, when it is over.
CREATE TABLE turnover AS
    SELECT city, COUNT(*) AS items, SUM(amount) AS amount, FORMAT_TIMESTAMP(FROM_UNIXTIME(WINDOWSTART), 'HH:mm') AS hour
    FROM sold WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 5 MINUTES)
    WHERE city IS NOT NULL
    GROUP BY city
    EMIT FINAL;

-- A product enters the table with its twentieth piece.
CREATE TABLE best_sellers AS
    SELECT product, SUM(quantity) AS pieces FROM sold GROUP BY product HAVING SUM(quantity) >= 20;
