--@test: an expression without an alias gets a numbered name
CREATE STREAM readings (id INT KEY, a INT, b INT) WITH (kafka_topic='readings', value_format='JSON');
CREATE STREAM sums AS SELECT id, a + b, a, a - b FROM readings;
ASSERT STREAM sums (id INT KEY, KSQL_COL_0 INT, a INT, KSQL_COL_1 INT) WITH (kafka_topic='SUMS');
INSERT INTO readings VALUES (1, 7, 2);
ASSERT VALUES sums (id, KSQL_COL_0, a, KSQL_COL_1) VALUES (1, 9, 7, 5);

--@test: a field of a struct gives its name, and a number if the name is taken
CREATE STREAM people (id INT KEY, home STRUCT<town STRING>, work STRUCT<town STRING>) WITH (kafka_topic='people', value_format='JSON');
CREATE STREAM towns AS SELECT id, home->town, work->town FROM people;
ASSERT STREAM towns (id INT KEY, town STRING, town_1 STRING) WITH (kafka_topic='TOWNS');
INSERT INTO people VALUES (1, STRUCT(town := 'Bonn'), STRUCT(town := 'Kiel'));
ASSERT VALUES towns (id, town, town_1) VALUES (1, 'Bonn', 'Kiel');

--@test: a star takes the keys, then the values in their order
CREATE STREAM wide (v1 INT, k1 INT KEY, v2 STRING) WITH (kafka_topic='wide', value_format='JSON');
CREATE STREAM copy AS SELECT * FROM wide;
ASSERT STREAM copy (k1 INT KEY, v1 INT, v2 STRING) WITH (kafka_topic='COPY', value_format='JSON');
INSERT INTO wide (k1, v1, v2) VALUES (1, 2, 'x');
ASSERT VALUES copy (k1, v1, v2) VALUES (1, 2, 'x');

--@test: names without quotes are upper case, quoted names keep their case
CREATE STREAM mixed (id INT KEY, `lower` INT, Plain INT) WITH (kafka_topic='mixed', value_format='JSON');
CREATE STREAM renamed AS SELECT id, `lower` AS `first`, plain AS Second FROM mixed;
ASSERT STREAM renamed (ID INT KEY, `first` INT, SECOND INT) WITH (kafka_topic='RENAMED');
INSERT INTO mixed (id, `lower`, PLAIN) VALUES (1, 2, 3);
ASSERT VALUES renamed (id, `first`, second) VALUES (1, 2, 3);

--@test: double quotes make an identifier
CREATE STREAM quoted (id INT KEY, "text" STRING) WITH (kafka_topic='quoted', value_format='JSON');
CREATE STREAM lengths AS SELECT id, LEN("text") AS n FROM quoted;
INSERT INTO quoted (id, `text`) VALUES (1, 'four');
ASSERT VALUES lengths (id, n) VALUES (1, 4);

--@test: all fields of a struct
CREATE STREAM nested (id INT KEY, s STRUCT<a INT, b STRING>) WITH (kafka_topic='nested', value_format='JSON');
CREATE STREAM flat AS SELECT id, s->* FROM nested;
ASSERT STREAM flat (id INT KEY, a INT, b STRING) WITH (kafka_topic='FLAT');
INSERT INTO nested VALUES (1, STRUCT(a := 5, b := 'five'));
ASSERT VALUES flat (id, a, b) VALUES (1, 5, 'five');

--@test: arrays count from one, and from the end with negative numbers
CREATE STREAM lists (id INT KEY, xs ARRAY<INT>) WITH (kafka_topic='lists', value_format='JSON');
CREATE STREAM parts AS SELECT id, xs[1] AS first, xs[-1] AS last, xs[0] AS none, xs[9] AS beyond FROM lists;
INSERT INTO lists VALUES (1, ARRAY[10, 20, 30]);
ASSERT VALUES parts (id, first, last, none, beyond) VALUES (1, 10, 30, NULL, NULL);

--@test: arithmetic with integers truncates, and wraps at the end of the range
CREATE STREAM ints (id INT KEY, a INT, b INT) WITH (kafka_topic='ints', value_format='JSON');
CREATE STREAM results AS SELECT id, a / b AS quotient, a % b AS rest, a + b AS total FROM ints;
INSERT INTO ints VALUES (1, -7, 2);
ASSERT VALUES results (id, quotient, rest, total) VALUES (1, -3, -1, -5);
INSERT INTO ints VALUES (2, 2147483647, 1);
ASSERT VALUES results (id, quotient, rest, total) VALUES (2, 2147483647, 0, -2147483648);

--@test: an expression that raises gives NULL, the others of the row have values
CREATE STREAM divisions (id INT KEY, a INT, b INT) WITH (kafka_topic='divisions', value_format='JSON');
CREATE STREAM quotients AS SELECT id, a / b AS q, a + b AS s FROM divisions;
INSERT INTO divisions VALUES (1, 6, 0);
ASSERT VALUES quotients (id, q, s) VALUES (1, NULL, 6);

--@test: a plus of texts writes null, two bars leave it out
CREATE STREAM names (id INT KEY, a STRING, b STRING) WITH (kafka_topic='names', value_format='JSON');
CREATE STREAM joined AS SELECT id, a + b AS plus, a || b AS bars FROM names;
INSERT INTO names VALUES (1, 'x', 'y');
ASSERT VALUES joined (id, plus, bars) VALUES (1, 'xy', 'xy');
INSERT INTO names (id, a) VALUES (2, 'x');
ASSERT VALUES joined (id, plus, bars) VALUES (2, 'xnull', 'x');

--@test: CASE takes the first branch that holds
CREATE STREAM marks (id INT KEY, points INT) WITH (kafka_topic='marks', value_format='JSON');
CREATE STREAM grades AS SELECT id, CASE WHEN points > 8 THEN 'good' WHEN points > 4 THEN 'fair' END AS grade FROM marks;
INSERT INTO marks VALUES (1, 9);
INSERT INTO marks VALUES (2, 5);
INSERT INTO marks VALUES (3, 1);
ASSERT VALUES grades (id, grade) VALUES (1, 'good');
ASSERT VALUES grades (id, grade) VALUES (2, 'fair');
ASSERT VALUES grades (id, grade) VALUES (3, NULL);

--@test: lambdas see the columns of the row
CREATE STREAM prices (id INT KEY, xs ARRAY<INT>, factor INT) WITH (kafka_topic='prices', value_format='JSON');
CREATE STREAM scaled AS SELECT id, TRANSFORM(xs, x => x * factor) AS ys, REDUCE(xs, 0, (s, x) => s + x) AS total FROM prices;
INSERT INTO prices VALUES (1, ARRAY[1, 2, 3], 10);
ASSERT VALUES scaled (id, ys, total) VALUES (1, ARRAY[10, 20, 30], 6);

--@test: a number that INSERT INTO selects as written takes the scale of a DECIMAL column
CREATE STREAM orders (id INT KEY, amount INT) WITH (kafka_topic='orders', value_format='JSON');
CREATE STREAM prices (id INT KEY, a DECIMAL(4, 2), b DECIMAL(4, 2), c DECIMAL(4, 2)) WITH (kafka_topic='prices', value_format='JSON');
INSERT INTO prices SELECT id, 7 AS a, -1.5e0 AS b, 0.1 AS c FROM orders;
INSERT INTO orders VALUES (1, 2);
ASSERT VALUES prices (id, a, b, c) VALUES (1, 7.00, -1.50, 0.10);

--@test: a number that a DECIMAL column cannot hold is not converted
--@expected.error: io.confluent.ksql.util.KsqlException
--@expected.message: Incompatible schema between results and sink
CREATE STREAM orders (id INT KEY, amount INT) WITH (kafka_topic='orders', value_format='JSON');
CREATE STREAM prices (id INT KEY, a DECIMAL(4, 2)) WITH (kafka_topic='prices', value_format='JSON');
INSERT INTO prices SELECT id, 100 AS a FROM orders;

--@test: no statement writes to a topic in which Kafka keeps its state
--@expected.error: io.confluent.ksql.util.KsqlException
--@expected.message: Cannot insert into read-only topic: __consumer_offsets
CREATE STREAM offsets (id INT KEY, amount INT) WITH (kafka_topic='__consumer_offsets', value_format='JSON');
INSERT INTO offsets VALUES (1, 2);

--@test: all fields of a struct that a table function returns
CREATE STREAM carts (id INT KEY, items ARRAY<STRUCT<name STRING, n INT>>) WITH (kafka_topic='carts', value_format='JSON');
CREATE STREAM items AS SELECT id, EXPLODE(items)->*, EXPLODE(items)->n * 2 AS twice FROM carts;
ASSERT STREAM items (id INT KEY, name STRING, n INT, twice INT) WITH (kafka_topic='ITEMS');
INSERT INTO carts VALUES (1, ARRAY[STRUCT(name := 'pen', n := 2), STRUCT(name := 'ink', n := 1)]);
ASSERT VALUES items (id, name, n, twice) VALUES (1, 'pen', 2, 4);
ASSERT VALUES items (id, name, n, twice) VALUES (1, 'ink', 1, 2);

--@test: all fields of a struct that an aggregate function returns
CREATE STREAM moves (id INT KEY, place STRUCT<town STRING, zip INT>) WITH (kafka_topic='moves', value_format='JSON');
CREATE TABLE places AS SELECT id, LATEST_BY_OFFSET(place)->*, COUNT(*) AS n FROM moves GROUP BY id;
ASSERT TABLE places (id INT PRIMARY KEY, town STRING, zip INT, n BIGINT) WITH (kafka_topic='PLACES');
INSERT INTO moves VALUES (1, STRUCT(town := 'Bonn', zip := 53111));
ASSERT VALUES places (id, town, zip, n) VALUES (1, 'Bonn', 53111, 1);

--@test: an element of a constructor that fails is NULL
CREATE STREAM numbers (id INT KEY, a INT, b INT) WITH (kafka_topic='numbers', value_format='JSON');
CREATE STREAM made AS SELECT id, ARRAY[a / b, a] AS xs, STRUCT(q := a / b, a := a) AS st, a FROM numbers;
INSERT INTO numbers VALUES (1, 6, 0);
ASSERT VALUES made (id, xs, st, a) VALUES (1, ARRAY[CAST(NULL AS INT), 6], STRUCT(q := CAST(NULL AS INT), a := 6), 6);

--@test: with ksql.nested.error.set.null=false, all of the value is NULL
SET 'ksql.nested.error.set.null'='false';
CREATE STREAM numbers (id INT KEY, a INT, b INT) WITH (kafka_topic='numbers', value_format='JSON');
CREATE STREAM made AS SELECT id, ARRAY[a / b, a] AS xs, STRUCT(q := a / b, a := a) AS st, a FROM numbers;
INSERT INTO numbers VALUES (1, 6, 0);
ASSERT VALUES made (id, xs, st, a) VALUES (1, NULL, NULL, 6);
