--@test: an alias renames the key
CREATE STREAM orders (id INT KEY, amount INT) WITH (kafka_topic='orders', value_format='JSON');
CREATE STREAM renamed AS SELECT id AS number, amount FROM orders;
ASSERT STREAM renamed (number INT KEY, amount INT) WITH (kafka_topic='RENAMED');
INSERT INTO orders VALUES (4, 40);
ASSERT VALUES renamed (number, amount) VALUES (4, 40);

--@test: a copy of the key in the value
CREATE STREAM orders (id INT KEY, amount INT) WITH (kafka_topic='orders', value_format='JSON');
CREATE STREAM copied AS SELECT id, AS_VALUE(id) AS copy FROM orders;
ASSERT STREAM copied (id INT KEY, copy INT) WITH (kafka_topic='COPIED');
INSERT INTO orders VALUES (4, 40);
ASSERT VALUES copied (id, copy) VALUES (4, 4);

--@test: several keys keep the order of the source
CREATE STREAM pairs (a INT KEY, b STRING KEY, v INT) WITH (kafka_topic='pairs', format='JSON');
CREATE STREAM turned AS SELECT b, v, a FROM pairs;
ASSERT STREAM turned (a INT KEY, b STRING KEY, v INT) WITH (kafka_topic='TURNED', key_format='JSON');
INSERT INTO pairs VALUES (1, 'x', 5);
ASSERT VALUES turned (a, b, v) VALUES (1, 'x', 5);

--@test: PARTITION BY a value column makes it the key, the old key becomes the last value
CREATE STREAM orders (id INT KEY, customer STRING, amount INT) WITH (kafka_topic='orders', value_format='JSON');
CREATE STREAM by_customer AS SELECT * FROM orders PARTITION BY customer;
ASSERT STREAM by_customer (customer STRING KEY, amount INT, id INT) WITH (kafka_topic='BY_CUSTOMER');
INSERT INTO orders VALUES (4, 'ann', 40);
ASSERT VALUES by_customer (customer, amount, id) VALUES ('ann', 40, 4);

--@test: PARTITION BY an expression
CREATE STREAM orders (id INT KEY, customer STRING) WITH (kafka_topic='orders', value_format='JSON');
CREATE STREAM by_initial AS SELECT SUBSTRING(customer, 1, 1) AS initial, customer FROM orders PARTITION BY SUBSTRING(customer, 1, 1);
ASSERT STREAM by_initial (initial STRING KEY, customer STRING) WITH (kafka_topic='BY_INITIAL');
INSERT INTO orders VALUES (4, 'ann');
ASSERT VALUES by_initial (initial, customer) VALUES ('a', 'ann');

--@test: PARTITION BY an expression that raises gives a NULL key
CREATE STREAM numbers (id INT KEY, a INT, b INT) WITH (kafka_topic='numbers', value_format='JSON');
CREATE STREAM by_quotient AS SELECT a / b AS q, a FROM numbers PARTITION BY a / b;
INSERT INTO numbers VALUES (1, 8, 2);
INSERT INTO numbers VALUES (2, 8, 0);
ASSERT VALUES by_quotient (q, a) VALUES (4, 8);
ASSERT VALUES by_quotient (q, a) VALUES (NULL, 8);

--@test: PARTITION BY NULL leaves no key
CREATE STREAM orders (id INT KEY, amount INT) WITH (kafka_topic='orders', value_format='JSON');
CREATE STREAM keyless AS SELECT id, amount FROM orders PARTITION BY NULL;
ASSERT STREAM keyless (id INT, amount INT) WITH (kafka_topic='KEYLESS', key_format='NONE');
INSERT INTO orders VALUES (4, 40);
ASSERT VALUES keyless (id, amount) VALUES (4, 40);

--@test: the projection must have the key
--@expected.error: io.confluent.ksql.util.KsqlStatementException
--@expected.message: key column
CREATE STREAM orders (id INT KEY, amount INT) WITH (kafka_topic='orders', value_format='JSON');
CREATE STREAM bad AS SELECT amount FROM orders;

--@test: the key cannot be selected twice
--@expected.error: io.confluent.ksql.util.KsqlStatementException
--@expected.message: key column
CREATE STREAM orders (id INT KEY, amount INT) WITH (kafka_topic='orders', value_format='JSON');
CREATE STREAM bad AS SELECT id, id AS again, amount FROM orders;

--@test: a projection of keys alone has no value column
--@expected.error: io.confluent.ksql.util.KsqlStatementException
--@expected.message: value column
CREATE STREAM orders (id INT KEY, amount INT) WITH (kafka_topic='orders', value_format='JSON');
CREATE STREAM bad AS SELECT id FROM orders;

--@test: the format KAFKA cannot carry two key columns
--@expected.error: io.confluent.ksql.util.KsqlStatementException
--@expected.message: KAFKA
CREATE STREAM orders (id INT KEY, a INT, b INT) WITH (kafka_topic='orders', value_format='JSON');
CREATE STREAM bad AS SELECT * FROM orders PARTITION BY a, b;

--@test: PARTITION BY is only for streams
--@expected.error: io.confluent.ksql.util.KsqlStatementException
--@expected.message: PARTITION BY
CREATE TABLE people (id INT PRIMARY KEY, town STRING) WITH (kafka_topic='people', value_format='JSON');
CREATE TABLE bad AS SELECT * FROM people PARTITION BY town;

--@test: with the new planner, the key has the columns that are selected, in the order of their selection
SET 'ksql.new.query.planner.enabled'='true';
CREATE STREAM steps (a INT KEY, b STRING KEY, c INT KEY, v INT) WITH (kafka_topic='steps', format='JSON');
CREATE STREAM some AS SELECT c, v, a AS first FROM steps;
ASSERT STREAM some (c INT KEY, first INT KEY, v INT) WITH (kafka_topic='SOME', key_format='JSON');
INSERT INTO steps VALUES (1, 'x', 3, 5);
ASSERT VALUES some (c, first, v) VALUES (3, 1, 5);

--@test: with the new planner, a projection without key columns has no key
SET 'ksql.new.query.planner.enabled'='true';
CREATE STREAM steps (a INT KEY, v INT, w INT) WITH (kafka_topic='steps', value_format='JSON');
CREATE STREAM bare AS SELECT v, w FROM steps;
ASSERT STREAM bare (v INT, w INT) WITH (kafka_topic='BARE', key_format='NONE');
INSERT INTO steps VALUES (1, 2, 3);
ASSERT VALUES bare (v, w) VALUES (2, 3);
