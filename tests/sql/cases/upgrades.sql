--@test: a replaced query keeps the groups that it has counted
CREATE STREAM sales (shop INT KEY, amount INT) WITH (kafka_topic='sales', value_format='JSON');
CREATE TABLE totals AS SELECT shop, SUM(amount) AS total FROM sales GROUP BY shop;
INSERT INTO sales VALUES (1, 10);
CREATE OR REPLACE TABLE totals AS SELECT shop, SUM(amount) AS total FROM sales WHERE amount > 5 GROUP BY shop;
INSERT INTO sales VALUES (1, 3);
INSERT INTO sales VALUES (1, 30);
ASSERT VALUES totals (shop, total) VALUES (1, 10);
ASSERT VALUES totals (shop, total) VALUES (1, 40);

--@test: HAVING of a replaced query deletes a row that the former one let pass
CREATE STREAM sales (shop INT KEY, amount INT) WITH (kafka_topic='sales', value_format='JSON');
CREATE TABLE totals AS SELECT shop, SUM(amount) AS total FROM sales GROUP BY shop HAVING SUM(amount) > 5;
INSERT INTO sales VALUES (1, 8);
CREATE OR REPLACE TABLE totals AS SELECT shop, SUM(amount) AS total FROM sales GROUP BY shop HAVING SUM(amount) < 9;
INSERT INTO sales VALUES (1, 2);
ASSERT VALUES totals (shop, total) VALUES (1, 8);
ASSERT NULL VALUES totals (shop) KEY (1);

--@test: a replaced projection gets a column at the end
CREATE STREAM sales (shop INT KEY, amount INT) WITH (kafka_topic='sales', value_format='JSON');
CREATE STREAM doubled AS SELECT shop, amount * 2 AS twice FROM sales;
INSERT INTO sales VALUES (1, 2);
CREATE OR REPLACE STREAM doubled AS SELECT shop, amount * 2 AS twice, amount FROM sales WHERE amount > 2;
INSERT INTO sales VALUES (1, 2);
INSERT INTO sales VALUES (1, 3);
ASSERT VALUES doubled (shop, twice) VALUES (1, 4);
ASSERT VALUES doubled (shop, twice, amount) VALUES (1, 6, 3);
ASSERT STREAM doubled (shop INT KEY, twice INT, amount INT) WITH (kafka_topic='DOUBLED');

--@test: a query can be replaced twice, and its sink dropped then
CREATE STREAM sales (shop INT KEY, amount INT) WITH (kafka_topic='sales', value_format='JSON');
CREATE STREAM copied AS SELECT * FROM sales;
CREATE OR REPLACE STREAM copied AS SELECT * FROM sales WHERE amount > 1;
CREATE OR REPLACE STREAM copied AS SELECT * FROM sales WHERE amount > 2;
INSERT INTO sales VALUES (1, 2);
INSERT INTO sales VALUES (1, 3);
ASSERT VALUES copied (shop, amount) VALUES (1, 3);
DROP STREAM copied;
DROP STREAM sales;

--@test: a filter on a column that the aggregation does not have cannot be added
--@expected.error: io.confluent.ksql.util.KsqlException
--@expected.message: StreamAggregate must have matching nonAggregateColumns
CREATE STREAM sales (shop INT KEY, amount INT, kind STRING) WITH (kafka_topic='sales', value_format='JSON');
CREATE TABLE totals AS SELECT shop, SUM(amount) AS total FROM sales GROUP BY shop;
CREATE OR REPLACE TABLE totals AS SELECT shop, SUM(amount) AS total FROM sales WHERE kind = 'a' GROUP BY shop;

--@test: the aggregate functions of a replaced query cannot change
--@expected.error: io.confluent.ksql.util.KsqlException
--@expected.message: must have matching aggregationFunctions. Values differ: [MIN(AMOUNT)] vs. [MAX(AMOUNT)]
CREATE STREAM sales (shop INT KEY, amount INT) WITH (kafka_topic='sales', value_format='JSON');
CREATE TABLE totals AS SELECT shop, MIN(amount) AS total FROM sales GROUP BY shop;
CREATE OR REPLACE TABLE totals AS SELECT shop, MAX(amount) AS total FROM sales GROUP BY shop;

--@test: the groups of a replaced query cannot change
--@expected.error: io.confluent.ksql.util.KsqlException
--@expected.message: must have matching groupByExpressions
CREATE STREAM sales (shop INT KEY, a INT, b INT) WITH (kafka_topic='sales', value_format='JSON');
CREATE TABLE totals AS SELECT a AS k, COUNT(*) AS n FROM sales GROUP BY a;
CREATE OR REPLACE TABLE totals AS SELECT b AS k, COUNT(*) AS n FROM sales GROUP BY b;

--@test: a query with a join cannot be replaced
--@expected.error: io.confluent.ksql.util.KsqlException
--@expected.message: Upgrades not yet supported for TableTableJoin
CREATE TABLE a (id INT PRIMARY KEY, x INT) WITH (kafka_topic='a', value_format='JSON');
CREATE TABLE b (id INT PRIMARY KEY, y INT) WITH (kafka_topic='b', value_format='JSON');
CREATE TABLE ab AS SELECT a.id, x, y FROM a JOIN b ON a.id = b.id;
CREATE OR REPLACE TABLE ab AS SELECT a.id, x, y FROM a JOIN b ON a.id = b.id WHERE x > 1;

--@test: a query with a window cannot be replaced
--@expected.error: io.confluent.ksql.util.KsqlException
--@expected.message: Upgrades not yet supported for StreamWindowedAggregate
CREATE STREAM sales (shop INT KEY, amount INT) WITH (kafka_topic='sales', value_format='JSON');
CREATE TABLE totals AS SELECT shop, COUNT(*) AS n FROM sales WINDOW SESSION (1 MINUTE) GROUP BY shop;
CREATE OR REPLACE TABLE totals AS SELECT shop, COUNT(*) AS n FROM sales WINDOW SESSION (1 MINUTE) WHERE amount > 1 GROUP BY shop;

--@test: a query whose sink another query writes cannot be replaced
--@expected.error: io.confluent.ksql.util.KsqlException
--@expected.message: there are multiple queries writing into it
CREATE STREAM sales (shop INT KEY, amount INT) WITH (kafka_topic='sales', value_format='JSON');
CREATE STREAM copied AS SELECT * FROM sales;
INSERT INTO copied SELECT * FROM sales;
CREATE OR REPLACE STREAM copied AS SELECT * FROM sales WHERE amount > 1;

--@test: a replaced source cannot lose a column
--@expected.error: io.confluent.ksql.util.KsqlException
--@expected.message: The following columns are changed, missing or reordered: [`B` INTEGER]
CREATE STREAM s (id INT KEY, a INT, b INT) WITH (kafka_topic='s', value_format='JSON');
CREATE OR REPLACE STREAM s (id INT KEY, a INT) WITH (kafka_topic='s', value_format='JSON');

--@test: a replaced source keeps its format
--@expected.error: io.confluent.ksql.util.KsqlException
--@expected.message: its formats are others
CREATE STREAM s (id INT KEY, a INT) WITH (kafka_topic='s', value_format='JSON');
CREATE OR REPLACE STREAM s (id INT KEY, a INT) WITH (kafka_topic='s', value_format='DELIMITED');
