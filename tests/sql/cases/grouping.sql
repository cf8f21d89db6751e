--@test: each row gives a new result
CREATE STREAM orders (id INT KEY, customer STRING, amount INT) WITH (kafka_topic='orders', value_format='JSON');
CREATE TABLE totals AS SELECT customer, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY customer;
ASSERT TABLE totals (customer STRING PRIMARY KEY, n BIGINT, total INT) WITH (kafka_topic='TOTALS');
INSERT INTO orders VALUES (1, 'ann', 5);
INSERT INTO orders VALUES (2, 'bob', 7);
INSERT INTO orders VALUES (3, 'ann', 6);
ASSERT VALUES totals (customer, n, total) VALUES ('ann', 1, 5);
ASSERT VALUES totals (customer, n, total) VALUES ('bob', 1, 7);
ASSERT VALUES totals (customer, n, total) VALUES ('ann', 2, 11);

--@test: rows whose group is NULL are dropped, NULL arguments are skipped
CREATE STREAM orders (id INT KEY, customer STRING, amount INT) WITH (kafka_topic='orders', value_format='JSON');
CREATE TABLE totals AS SELECT customer, COUNT(*) AS n, COUNT(amount) AS m, SUM(amount) AS total, AVG(amount) AS mean FROM orders GROUP BY customer;
INSERT INTO orders (id, amount) VALUES (1, 5);
INSERT INTO orders (id, customer) VALUES (2, 'ann');
INSERT INTO orders VALUES (3, 'ann', 6);
ASSERT VALUES totals (customer, n, m, total, mean) VALUES ('ann', 1, 0, 0, 0.0);
ASSERT VALUES totals (customer, n, m, total, mean) VALUES ('ann', 2, 1, 6, 6.0);

--@test: a group of two expressions
CREATE STREAM orders (id INT KEY, customer STRING, amount INT) WITH (kafka_topic='orders', format='JSON');
CREATE TABLE totals AS SELECT UCASE(customer) AS name, amount / 10 AS tens, COUNT(*) AS n FROM orders GROUP BY UCASE(customer), amount / 10;
ASSERT TABLE totals (name STRING PRIMARY KEY, tens INT PRIMARY KEY, n BIGINT) WITH (kafka_topic='TOTALS', key_format='JSON');
INSERT INTO orders VALUES (1, 'ann', 15);
INSERT INTO orders VALUES (2, 'Ann', 19);
ASSERT VALUES totals (name, tens, n) VALUES ('ANN', 1, 1);
ASSERT VALUES totals (name, tens, n) VALUES ('ANN', 1, 2);

--@test: HAVING hides groups, and shows them again
CREATE STREAM moves (id INT KEY, account STRING, amount INT) WITH (kafka_topic='moves', value_format='JSON');
CREATE TABLE rich AS SELECT account, SUM(amount) AS balance FROM moves GROUP BY account HAVING SUM(amount) > 100;
INSERT INTO moves VALUES (1, 'a', 90);
INSERT INTO moves VALUES (2, 'a', 20);
INSERT INTO moves VALUES (3, 'a', -50);
INSERT INTO moves VALUES (4, 'a', 60);
ASSERT VALUES rich (account, balance) VALUES ('a', 110);
ASSERT NULL VALUES rich (account) KEY ('a');
ASSERT VALUES rich (account, balance) VALUES ('a', 120);

--@test: aggregates inside of expressions, and expressions inside of aggregates
CREATE STREAM orders (id INT KEY, customer STRING, amount INT, n INT) WITH (kafka_topic='orders', value_format='JSON');
CREATE TABLE means AS SELECT customer, SUM(amount * n) / SUM(n) AS mean, MAX(amount) - MIN(amount) AS span FROM orders GROUP BY customer;
INSERT INTO orders VALUES (1, 'ann', 10, 1);
INSERT INTO orders VALUES (2, 'ann', 40, 2);
ASSERT VALUES means (customer, mean, span) VALUES ('ann', 10, 0);
ASSERT VALUES means (customer, mean, span) VALUES ('ann', 30, 30);

--@test: lists, sets and the highest values
CREATE STREAM scores (id INT KEY, player STRING, points INT) WITH (kafka_topic='scores', value_format='JSON');
CREATE TABLE summary AS SELECT player, COLLECT_LIST(points) AS points, COLLECT_SET(points) AS distinct_points, TOPK(points, 2) AS best, LATEST_BY_OFFSET(points) AS latest FROM scores GROUP BY player;
INSERT INTO scores VALUES (1, 'ann', 3);
INSERT INTO scores VALUES (2, 'ann', 9);
INSERT INTO scores VALUES (3, 'ann', 3);
ASSERT VALUES summary (player, points, distinct_points, best, latest) VALUES ('ann', ARRAY[3], ARRAY[3], ARRAY[3], 3);
ASSERT VALUES summary (player, points, distinct_points, best, latest) VALUES ('ann', ARRAY[3, 9], ARRAY[3, 9], ARRAY[9, 3], 9);
ASSERT VALUES summary (player, points, distinct_points, best, latest) VALUES ('ann', ARRAY[3, 9, 3], ARRAY[3, 9], ARRAY[9, 3], 3);

--@test: an update of a table takes the old row out of its group
CREATE TABLE people (id INT PRIMARY KEY, town STRING, age INT) WITH (kafka_topic='people', value_format='JSON');
CREATE TABLE towns AS SELECT town, COUNT(*) AS n, SUM(age) AS ages FROM people GROUP BY town;
INSERT INTO people VALUES (1, 'Bonn', 30);
INSERT INTO people VALUES (2, 'Bonn', 40);
INSERT INTO people VALUES (1, 'Kiel', 31);
ASSERT VALUES towns (town, n, ages) VALUES ('Bonn', 1, 30);
ASSERT VALUES towns (town, n, ages) VALUES ('Bonn', 2, 70);
ASSERT VALUES towns (town, n, ages) VALUES ('Bonn', 1, 40);
ASSERT VALUES towns (town, n, ages) VALUES ('Kiel', 1, 31);

--@test: GROUP BY makes a table
--@expected.error: io.confluent.ksql.util.KsqlStatementException
--@expected.message: TABLE
CREATE STREAM orders (id INT KEY, customer STRING) WITH (kafka_topic='orders', value_format='JSON');
CREATE STREAM bad AS SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer;

--@test: a column that is neither grouped nor aggregated
--@expected.error: io.confluent.ksql.util.KsqlStatementException
--@expected.message: GROUP BY
CREATE STREAM orders (id INT KEY, customer STRING, amount INT) WITH (kafka_topic='orders', value_format='JSON');
CREATE TABLE bad AS SELECT customer, amount, COUNT(*) AS n FROM orders GROUP BY customer;

--@test: MIN does not aggregate tables
--@expected.error: io.confluent.ksql.util.KsqlStatementException
--@expected.message: MIN
CREATE TABLE people (id INT PRIMARY KEY, town STRING, age INT) WITH (kafka_topic='people', value_format='JSON');
CREATE TABLE bad AS SELECT town, MIN(age) AS youngest FROM people GROUP BY town;

--@test: NULL as the argument of an aggregate function has the type of its parameter
CREATE STREAM pairs (id INT KEY, x DOUBLE) WITH (kafka_topic='pairs', value_format='JSON');
CREATE TABLE texts AS SELECT id, HISTOGRAM(NULL) AS h, COUNT(*) AS n FROM pairs GROUP BY id;
ASSERT TABLE texts (id INT PRIMARY KEY, h MAP<STRING, BIGINT>, n BIGINT) WITH (kafka_topic='TEXTS');
INSERT INTO pairs VALUES (1, 2.5);
ASSERT VALUES texts (id, n) VALUES (1, 1);
