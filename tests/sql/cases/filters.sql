--@test: WHERE keeps the rows for which the condition is TRUE
CREATE STREAM readings (id INT KEY, v INT) WITH (kafka_topic='readings', value_format='JSON');
CREATE STREAM high AS SELECT * FROM readings WHERE v > 10;
INSERT INTO readings VALUES (1, 5);
INSERT INTO readings VALUES (2, 15);
INSERT INTO readings (id) VALUES (3);
INSERT INTO readings VALUES (4, 11);
ASSERT VALUES high (id, v) VALUES (2, 15);
ASSERT VALUES high (id, v) VALUES (4, 11);

--@test: a comparison with NULL is FALSE, so its negation is TRUE
CREATE STREAM readings (id INT KEY, v INT) WITH (kafka_topic='readings', value_format='JSON');
CREATE STREAM others AS SELECT * FROM readings WHERE NOT (v = 1);
CREATE STREAM unequal AS SELECT * FROM readings WHERE v <> 1;
INSERT INTO readings (id) VALUES (1);
INSERT INTO readings VALUES (2, 1);
INSERT INTO readings VALUES (3, 3);
ASSERT VALUES others (id, v) VALUES (1, NULL);
ASSERT VALUES others (id, v) VALUES (3, 3);
ASSERT VALUES unequal (id, v) VALUES (3, 3);

--@test: NOT IN and NOT BETWEEN hold for NULL
CREATE STREAM readings (id INT KEY, v INT) WITH (kafka_topic='readings', value_format='JSON');
CREATE STREAM outside AS SELECT * FROM readings WHERE v NOT BETWEEN 2 AND 4;
CREATE STREAM unlisted AS SELECT * FROM readings WHERE v NOT IN (2, 4);
INSERT INTO readings (id) VALUES (1);
INSERT INTO readings VALUES (2, 3);
INSERT INTO readings VALUES (3, 5);
ASSERT VALUES outside (id, v) VALUES (1, NULL);
ASSERT VALUES outside (id, v) VALUES (3, 5);
ASSERT VALUES unlisted (id, v) VALUES (1, NULL);
ASSERT VALUES unlisted (id, v) VALUES (2, 3);

--@test: IS NULL and IS DISTINCT FROM
CREATE STREAM pairs (id INT KEY, a INT, b INT) WITH (kafka_topic='pairs', value_format='JSON');
CREATE STREAM tests AS SELECT id, a IS NULL AS absent, a IS DISTINCT FROM b AS differs FROM pairs;
INSERT INTO pairs (id) VALUES (1);
INSERT INTO pairs VALUES (2, 1, 1);
INSERT INTO pairs (id, b) VALUES (3, 1);
ASSERT VALUES tests (id, absent, differs) VALUES (1, TRUE, FALSE);
ASSERT VALUES tests (id, absent, differs) VALUES (2, FALSE, FALSE);
ASSERT VALUES tests (id, absent, differs) VALUES (3, TRUE, TRUE);

--@test: a condition that raises drops the row
CREATE STREAM pairs (id INT KEY, a INT, b INT) WITH (kafka_topic='pairs', value_format='JSON');
CREATE STREAM halves AS SELECT * FROM pairs WHERE a / b > 1;
INSERT INTO pairs VALUES (1, 8, 0);
INSERT INTO pairs VALUES (2, 8, 2);
ASSERT VALUES halves (id, a, b) VALUES (2, 8, 2);

--@test: LIKE with an escape character
CREATE STREAM codes (id INT KEY, code STRING) WITH (kafka_topic='codes', value_format='JSON');
CREATE STREAM found AS SELECT * FROM codes WHERE code LIKE 'a!%_%' ESCAPE '!';
INSERT INTO codes VALUES (1, 'a%bc');
INSERT INTO codes VALUES (2, 'abc');
INSERT INTO codes VALUES (3, 'a%');
INSERT INTO codes VALUES (4, 'a%x');
ASSERT VALUES found (id, code) VALUES (1, 'a%bc');
ASSERT VALUES found (id, code) VALUES (4, 'a%x');

--@test: a row that leaves the result of a table becomes a tombstone
CREATE TABLE stock (item STRING PRIMARY KEY, n INT) WITH (kafka_topic='stock', value_format='JSON');
CREATE TABLE plenty AS SELECT * FROM stock WHERE n > 10;
INSERT INTO stock VALUES ('pen', 5);
INSERT INTO stock VALUES ('pen', 20);
INSERT INTO stock VALUES ('pen', 4);
INSERT INTO stock VALUES ('pen', 3);
INSERT INTO stock VALUES ('ink', 12);
ASSERT VALUES plenty (item, n) VALUES ('pen', 20);
ASSERT NULL VALUES plenty (item) KEY ('pen');
ASSERT VALUES plenty (item, n) VALUES ('ink', 12);

--@test: a condition must be BOOLEAN
--@expected.error: io.confluent.ksql.util.KsqlStatementException
--@expected.message: Should evaluate to boolean
CREATE STREAM readings (id INT KEY, v INT) WITH (kafka_topic='readings', value_format='JSON');
CREATE STREAM bad AS SELECT * FROM readings WHERE v + 1;

--@test: a comparison with the literal NULL is refused
--@expected.error: io.confluent.ksql.util.KsqlStatementException
--@expected.message: NULL
CREATE STREAM readings (id INT KEY, v INT) WITH (kafka_topic='readings', value_format='JSON');
CREATE STREAM bad AS SELECT * FROM readings WHERE v = NULL;

--@test: a LIKE pattern that ends with its escape character is an error of each row
CREATE STREAM texts (id INT KEY, t STRING) WITH (kafka_topic='texts', value_format='JSON');
CREATE STREAM fits AS SELECT id, t LIKE 'a!' ESCAPE '!' AS fits, t FROM texts;
INSERT INTO texts VALUES (1, 'a');
ASSERT VALUES fits (id, fits, t) VALUES (1, NULL, 'a');
