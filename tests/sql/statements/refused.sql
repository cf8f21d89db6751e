-- Statements that are refused, each with a part of the message of its error. Read by test_statements.py.

CREATE STREAM s (id INT KEY, v INT, w STRING, st STRUCT<a INT, b STRUCT<c STRING>>, ar ARRAY<INT>, m MAP<STRING,INT>, b BOOLEAN)
    WITH (kafka_topic='s', value_format='JSON');
CREATE STREAM s2 (id2 INT KEY, v INT, x STRING)
    WITH (kafka_topic='s2', value_format='JSON');
CREATE TABLE t (tid INT PRIMARY KEY, v INT, y STRING, fk INT)
    WITH (kafka_topic='t', value_format='JSON');
CREATE TABLE t2 (tid2 INT PRIMARY KEY, z INT, q STRING)
    WITH (kafka_topic='t2', value_format='JSON');
CREATE TABLE mt (k1 INT PRIMARY KEY, k2 STRING PRIMARY KEY, v INT)
    WITH (kafka_topic='mt', format='JSON');
CREATE STREAM ms (k1 INT KEY, k2 STRING KEY, v INT)
    WITH (kafka_topic='ms', format='JSON');
CREATE STREAM ws (id INT KEY, v INT)
    WITH (kafka_topic='ws', value_format='JSON', window_type='TUMBLING', window_size='10 SECONDS');
CREATE STREAM ws2 (id INT KEY, v INT)
    WITH (kafka_topic='ws2', value_format='JSON', window_type='HOPPING', window_size='30 SECONDS');
CREATE STREAM wss (id INT KEY, v INT)
    WITH (kafka_topic='wss', value_format='JSON', window_type='SESSION');
CREATE TABLE wt (id INT PRIMARY KEY, v INT)
    WITH (kafka_topic='wt', value_format='JSON', window_type='TUMBLING', window_size='10 SECONDS');
CREATE STREAM ks (id INT KEY, v INT)
    WITH (kafka_topic='ks', value_format='KAFKA');
CREATE STREAM nk (v INT, w INT)
    WITH (kafka_topic='nk', key_format='NONE', value_format='JSON');
CREATE STREAM ds (id INT KEY, v INT, w STRING)
    WITH (kafka_topic='ds', value_format='DELIMITED');

-- projections

-- refused: The query used to build `O` must include the key column ID in its projection (eg, SELECT ID...).
CREATE STREAM o AS SELECT v FROM s;

-- refused: The projection contains no value columns.
CREATE STREAM o AS SELECT id FROM s;

-- refused: The projection contains a key column (`ID`) more than once, aliased as: ID and K2.
CREATE STREAM o AS SELECT id, id AS k2, v FROM s;

-- refused: The projection contains a duplicate column: `V`.
CREATE STREAM o AS SELECT *, v FROM s;

-- refused: The projection contains a duplicate column: `V`.
CREATE STREAM o AS SELECT id, v, v FROM s;

-- refused: The projection contains a duplicate column: `W`.
CREATE STREAM o AS SELECT id, v AS w, w FROM s;

-- refused: The projection contains a duplicate column: `ID`.
CREATE STREAM o AS SELECT id, v AS id FROM s;

-- refused: Reserved column name in select: `ROWTIME`. Please remove or alias the
CREATE STREAM o AS SELECT id, rowtime FROM s;

-- refused: Reserved column name in select: `ROWTIME`. Please remove or alias the
CREATE STREAM o AS SELECT id, s.rowtime FROM s;

-- refused: `ROWTIME` is a reserved column name. You cannot use it as an alias
CREATE STREAM o AS SELECT id, v AS rowtime FROM s;

-- refused: Reserved column name in select: `ROWTIME`. Please remove or alias the
CREATE STREAM o AS SELECT id, rowtime AS rowtime FROM s;

-- refused: `ROWTIME` is a reserved column name. You cannot use it as an alias
CREATE STREAM o AS SELECT id, v AS `rowtime` FROM s;

-- refused: `WINDOWSTART` is a reserved column name. You cannot use it as an
CREATE STREAM o AS SELECT id, v AS windowstart FROM s;

-- refused: Reserved column name in select: `ROWPARTITION`. Please remove or
CREATE STREAM o AS SELECT id, rowpartition FROM s;

-- refused: SELECT column 'WINDOWSTART' cannot be resolved.
CREATE STREAM o AS SELECT id, windowstart AS x FROM s;

-- refused: SELECT column 'FOO' cannot be resolved.
CREATE STREAM o AS SELECT foo, v FROM s;

-- refused: SELECT column 'X.ID' cannot be resolved: there is no source 'X'
CREATE STREAM o AS SELECT x.id, v FROM s;

-- refused: SELECT column 'S.ID' cannot be resolved: there is no source 'S'
CREATE STREAM o AS SELECT s.id, v FROM s a;

-- refused: 'X' is not a valid stream/table name or alias.
CREATE STREAM o AS SELECT x.* FROM s;

-- refused: 'S' is not a valid stream/table name or alias.
CREATE STREAM o AS SELECT s.* FROM s a;

-- refused: NOPE does not exist.
CREATE STREAM o AS SELECT * FROM nope;

-- refused: Invalid result type. Your SELECT query produces a STREAM. Please use
CREATE TABLE o AS SELECT * FROM s;

-- refused: Invalid result type. Your SELECT query produces a TABLE. Please use
CREATE STREAM o AS SELECT * FROM t;

-- refused: Projected NULL without a type
CREATE STREAM o AS SELECT id, null AS n FROM s;

-- refused: CREATE ... AS with LIMIT is not supported
CREATE STREAM o AS SELECT * FROM s LIMIT 3;

-- refused: EMIT FINAL is only supported for windowed aggregations.
CREATE STREAM o AS SELECT * FROM s EMIT FINAL;

-- refused: Key format specified for stream without key columns.
CREATE STREAM o WITH (key_format='JSON') AS SELECT v, w FROM nk;

-- refused: The 'NONE' format can only be used when no columns are defined. Got:
CREATE STREAM o WITH (key_format='NONE') AS SELECT * FROM s;

-- refused: The 'DELIMITED' format does not support type 'STRUCT'
CREATE STREAM o WITH (value_format='DELIMITED') AS SELECT * FROM s;

-- refused: The 'KAFKA' format only supports a single field. Got: [`V` INTEGER,
CREATE STREAM o WITH (value_format='KAFKA') AS SELECT id, v, w FROM s;

-- refused: Invalid config variable(s) in the WITH clause: WINDOW_TYPE
CREATE STREAM o WITH (window_type='SESSION') AS SELECT * FROM s;

-- refused: Invalid config variable(s) in the WITH clause: FOO
CREATE STREAM o WITH (foo='SESSION') AS SELECT * FROM s;

-- refused: 'WRAP_SINGLE_VALUE' is only valid for single-field value schemas
CREATE STREAM o WITH (wrap_single_value=false) AS SELECT id, v, w FROM s;

-- refused: The TIMESTAMP column set in the WITH clause does not exist in the
CREATE STREAM o WITH (timestamp='nope') AS SELECT * FROM s;

-- refused: Timestamp column, `V`, should be LONG(INT64), TIMESTAMP, or a String
CREATE STREAM o WITH (timestamp='v') AS SELECT * FROM s;

-- refused: Cannot add stream 'S': A stream with the same name already exists
CREATE STREAM s AS SELECT * FROM s2;

-- refused: The query used to build `O` must include the key columns K1 and K2 in its projection (eg, SELECT K1, K2...).
CREATE STREAM o AS SELECT k1, v FROM ms;

-- conditions

-- refused: Type error in WHERE expression: Should evaluate to boolean but is V
CREATE STREAM o AS SELECT * FROM s WHERE v;

-- refused: WHERE column 'NOPE' cannot be resolved.
CREATE STREAM o AS SELECT * FROM s WHERE nope = 1;

-- refused: WHERE does not support aggregate functions: COUNT is an aggregate function.
CREATE STREAM o AS SELECT * FROM s WHERE COUNT(*) > 1;

-- refused: WHERE does not support aggregate functions: SUM is an aggregate function.
CREATE STREAM o AS SELECT * FROM s WHERE SUM(v) > 1;

-- refused: Table functions cannot be used with WHERE: EXPLODE(AR)
CREATE STREAM o AS SELECT * FROM s WHERE EXPLODE(ar) > 1;

-- refused: Failed to parse timestamp 'foo': Failed to parse timestamp 'foo':
CREATE STREAM o AS SELECT * FROM s WHERE ROWTIME > 'foo';

-- refused: Cannot compare ROWTIME (BIGINT) to '2020' (STRING) with GREATER_THAN.
CREATE STREAM o AS SELECT id, ROWTIME > '2020' AS x FROM s;

-- PARTITION BY

-- refused: The query used to build `O` must include the partitioning expression (V + 1) in its projection
CREATE STREAM o AS SELECT id FROM s PARTITION BY v + 1;

-- refused: PARTITION BY column 'K' cannot be resolved.
CREATE STREAM o AS SELECT v AS k, id FROM s PARTITION BY k;

-- refused: PARTITION BY column 'NOPE' cannot be resolved.
CREATE STREAM o AS SELECT v, id FROM s PARTITION BY nope;

-- refused: The 'KAFKA' format only supports a single field. Got: [`V` INTEGER
CREATE STREAM o AS SELECT * FROM s PARTITION BY v, w;

-- refused: Cannot PARTITION BY multiple columns including NULL
CREATE STREAM o WITH (key_format='JSON') AS SELECT * FROM s PARTITION BY v, null;

-- refused: Duplicate expression in PARTITION BY: V
CREATE STREAM o AS SELECT * FROM s PARTITION BY v, v;

-- refused: Duplicate expression in PARTITION BY: V
CREATE STREAM o WITH (key_format='JSON') AS SELECT * FROM s PARTITION BY v, v;

-- refused: Key format specified for stream without key columns.
CREATE STREAM o WITH (key_format='KAFKA') AS SELECT * FROM s PARTITION BY null;

-- refused: Only STREAMs can be partitioned: PARTITION BY is not for tables.
CREATE TABLE o AS SELECT * FROM t PARTITION BY v;

-- refused: The 'KAFKA' format does not support type 'BOOLEAN'
CREATE STREAM o AS SELECT * FROM s PARTITION BY b;

-- refused: Map keys, including types that contain maps, are not supported as
CREATE STREAM o WITH (key_format='JSON') AS SELECT * FROM s PARTITION BY m;

-- refused: The 'KAFKA' format does not support type 'STRUCT'
CREATE STREAM o AS SELECT * FROM s PARTITION BY st;

-- refused: PARTITION BY does not support aggregate functions: COUNT is an aggregate function.
CREATE STREAM o AS SELECT * FROM s PARTITION BY COUNT(*);

-- refused: Table functions cannot be used with PARTITION BY: EXPLODE(AR)
CREATE STREAM o AS SELECT * FROM s PARTITION BY EXPLODE(ar);

-- refused: PARTITION BY is not supported on windowed sources.
CREATE STREAM o AS SELECT * FROM ws PARTITION BY v;

-- refused: PARTITION BY does not support aggregate functions: COUNT is an aggregate function.
CREATE STREAM o AS SELECT v, AS_VALUE(v) FROM s PARTITION BY v, COUNT(*) ;

-- refused: Only one of PARTITION BY or GROUP BY is allowed.
CREATE STREAM o AS SELECT v, w FROM s GROUP BY v PARTITION BY w;

-- GROUP BY

-- refused: The query used to build `O` must include the grouping expression W in its projection (eg, SELECT W...).
CREATE TABLE o AS SELECT COUNT(*) FROM s GROUP BY w;

-- refused: GROUP BY requires aggregate functions in either the SELECT or HAVING
CREATE TABLE o AS SELECT w FROM s GROUP BY w;

-- refused: Can't find any functions with the name 'FOO'
CREATE TABLE o AS SELECT w, FOO(v), COUNT(*) FROM s GROUP BY w;

-- refused: The type of argument 1 is not known
CREATE TABLE o AS SELECT w, COUNT(NULL) FROM s GROUP BY w;

-- refused: Non-aggregate SELECT expression(s) not part of GROUP BY: V
CREATE TABLE o AS SELECT w, v, COUNT(*) FROM s GROUP BY w;

-- refused: Use of aggregate functions requires a GROUP BY clause.
CREATE TABLE o AS SELECT w, COUNT(*) FROM s;

-- refused: Use of aggregate functions requires a GROUP BY clause.
CREATE TABLE o AS SELECT COUNT(*) FROM s;

-- refused: Non-aggregate SELECT expression(s) not part of GROUP BY: (V + 2)
CREATE TABLE o AS SELECT v + 1 AS k, v + 2 AS y, COUNT(*) FROM s GROUP BY v + 1;

-- refused: The projection contains a key column (`W`) more than once, aliased as: W and W2.
CREATE TABLE o AS SELECT w, w AS w2, COUNT(*) FROM s GROUP BY w;

-- refused: The 'KAFKA' format only supports a single field. Got: [`V` INTEGER
CREATE TABLE o AS SELECT v, w, COUNT(*) FROM s GROUP BY v, w;

-- refused: The query used to build `O` must include the grouping expressions V and W in its projection
CREATE TABLE o WITH (key_format='JSON') AS SELECT v, COUNT(*) FROM s GROUP BY v, w;

-- refused: Duplicate expression in GROUP BY: V
CREATE TABLE o WITH (key_format='JSON') AS SELECT v, v, COUNT(*) FROM s GROUP BY v, v;

-- refused: Duplicate expression in GROUP BY: V
CREATE TABLE o AS SELECT v, COUNT(*) FROM s GROUP BY v, v;

-- refused: GROUP BY does not support aggregate functions: COUNT is an aggregate function.
CREATE TABLE o AS SELECT v, COUNT(*) FROM s GROUP BY COUNT(*);

-- refused: Aggregate functions can not be nested: SUM(COUNT(*))
CREATE TABLE o AS SELECT v, SUM(COUNT(*)) FROM s GROUP BY v;

-- refused: GROUP BY column 'NOPE' cannot be resolved.
CREATE TABLE o AS SELECT v, COUNT(*) FROM s GROUP BY nope;

-- refused: Map keys, including types that contain maps, are not supported as
CREATE TABLE o AS SELECT m, COUNT(*) FROM s GROUP BY m;

-- refused: Map keys, including types that contain maps, are not supported as
CREATE TABLE o WITH (key_format='JSON') AS SELECT m, COUNT(*) FROM s GROUP BY m;

-- refused: The 'KAFKA' format does not support type 'STRUCT'
CREATE TABLE o AS SELECT st, COUNT(*) FROM s GROUP BY st;

-- refused: Table functions cannot be used with aggregations.
CREATE TABLE o AS SELECT EXPLODE(ar), COUNT(*) FROM s GROUP BY w;

-- refused: Table functions cannot be used with aggregations.
CREATE TABLE o AS SELECT w, EXPLODE(ar), COUNT(*) FROM s GROUP BY w;

-- refused: Invalid result type. Your SELECT query produces a TABLE. Please use
CREATE STREAM o AS SELECT w, COUNT(*) FROM s GROUP BY w;

-- refused: Non-aggregate HAVING expression not part of GROUP BY: V
CREATE TABLE o AS SELECT w, COUNT(*) FROM s GROUP BY w HAVING v > 1;

-- refused: Type error in HAVING expression: Should evaluate to boolean but is
CREATE TABLE o AS SELECT w, COUNT(*) FROM s GROUP BY w HAVING COUNT(*);

-- refused: HAVING column 'C' cannot be resolved.
CREATE TABLE o AS SELECT w, COUNT(*) AS c FROM s GROUP BY w HAVING c > 1;

-- refused: Use of aggregate functions requires a GROUP BY clause.
CREATE TABLE o AS SELECT w, COUNT(*) FROM s HAVING COUNT(*) > 1;

-- refused: HAVING needs GROUP BY
CREATE STREAM o AS SELECT * FROM s HAVING v > 1;

-- refused: Source(s) KS are using the 'KAFKA' value format. This format does not
CREATE TABLE o AS SELECT id, COUNT(*) FROM ks GROUP BY id;

-- refused: One of the functions used in the statement has an intermediate type
CREATE TABLE o AS SELECT w, COLLECT_LIST(v) FROM ds GROUP BY w;

-- refused: One of the functions used in the statement has an intermediate type
CREATE TABLE o AS SELECT w, AVG(v) FROM ds GROUP BY w;

-- refused: Use of aggregate functions requires a GROUP BY clause.
CREATE TABLE o AS SELECT w, COLLECT_LIST(v) FROM s WINDOW TUMBLING (SIZE 1 SECOND);

-- refused: Reserved column name in select: `WINDOWSTART`. Please remove or alias
CREATE TABLE o AS SELECT w, COUNT(*), WINDOWSTART FROM s WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY w;

-- refused: Window bounds column WINDOWSTART can only be used in the SELECT
CREATE TABLE o AS SELECT w, COUNT(WINDOWSTART) FROM s WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY w;

-- refused: Window bounds column WINDOWSTART can only be used in the SELECT
CREATE TABLE o AS SELECT w, COUNT(*) FROM s WINDOW TUMBLING (SIZE 1 SECOND) WHERE WINDOWSTART > 1 GROUP BY w;

-- refused: Window bounds column WINDOWSTART can only be used in the SELECT
CREATE TABLE o AS SELECT w, COUNT(*) FROM s WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY w, WINDOWSTART;

-- refused: Window bounds column WINDOWSTART can only be used in the SELECT
CREATE TABLE o AS SELECT w, COUNT(*) FROM s WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY w HAVING WINDOWSTART > 1;

-- refused: Tumbling window: the size must be more than zero.
CREATE TABLE o AS SELECT w, COUNT(*) FROM s WINDOW TUMBLING (SIZE 0 SECOND) GROUP BY w;

-- refused: Hopping window: ADVANCE BY must be more than zero, and not more than
CREATE TABLE o AS SELECT w, COUNT(*) FROM s WINDOW HOPPING (SIZE 1 SECOND, ADVANCE BY 2 SECONDS) GROUP BY w;

-- refused: Hopping window: ADVANCE BY must be more than zero, and not more than
CREATE TABLE o AS SELECT w, COUNT(*) FROM s WINDOW HOPPING (SIZE 1 SECOND, ADVANCE BY 0 SECONDS) GROUP BY w;

-- refused: Tumbling window: RETENTION must be at least SIZE and GRACE PERIOD
CREATE TABLE o AS SELECT w, COUNT(*) FROM s WINDOW TUMBLING (SIZE 10 SECOND, RETENTION 1 SECOND) GROUP BY w;

-- refused: Tumbling window: RETENTION must be at least SIZE and GRACE PERIOD
CREATE TABLE o AS SELECT w, COUNT(*) FROM s WINDOW TUMBLING (SIZE 10 SECOND, RETENTION 1 SECOND, GRACE PERIOD 1 SECOND) GROUP BY w;

-- refused: EMIT FINAL is only supported for windowed aggregations.
CREATE TABLE o AS SELECT w, COUNT(*) FROM s GROUP BY w EMIT FINAL;

-- refused: EMIT FINAL is only supported for windowed aggregations.
CREATE TABLE o AS SELECT * FROM t EMIT FINAL;

-- refused: WINDOW clause is not supported on tables.
CREATE TABLE o AS SELECT tid, COUNT(*) FROM t WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY tid;

-- refused: The aggregation function(s) (MAX) cannot be applied to a table
CREATE TABLE o AS SELECT y, MAX(v) FROM t GROUP BY y;

-- refused: The aggregation function(s) (TOPK) cannot be applied to a table
CREATE TABLE o AS SELECT y, TOPK(v, 2) FROM t GROUP BY y;

-- refused: Parameter 2 passed to function TOPK must be a literal constant
CREATE TABLE o AS SELECT w, TOPK(v, v) FROM s GROUP BY w;

-- refused: Reserved column name in select: `ROWTIME`. Please remove or alias the
CREATE TABLE o AS SELECT ROWTIME, COUNT(*) FROM s GROUP BY ROWTIME;

-- windowed sources

-- refused: Reserved column name in select: `WINDOWSTART`. Please remove or alias
CREATE STREAM o AS SELECT id, windowstart, v FROM ws;

-- refused: KSQL does not support persistent queries on windowed tables.
CREATE TABLE o AS SELECT * FROM wt;

-- table functions

-- refused: Table functions cannot be nested: EXPLODE(EXPLODE(AR))
CREATE STREAM o AS SELECT id, EXPLODE(EXPLODE(ar)) AS e FROM s;

-- refused: Table functions cannot be used in CASE: (CASE WHEN B THEN EXPLODE(AR)
CREATE STREAM o AS SELECT id, CASE WHEN b THEN EXPLODE(ar) ELSE 1 END AS e FROM s;

-- refused: Table source is not supported with table functions
CREATE TABLE o AS SELECT tid, EXPLODE(ARRAY[v]) AS e FROM t;

-- refused: Function 'explode' does not accept parameters (INTEGER).
CREATE STREAM o AS SELECT id, EXPLODE(v) AS e FROM s;

-- INSERT INTO … SELECT

-- refused: Incompatible schema between results and sink. Result schema is `ID`
CREATE STREAM o (id INT KEY, v STRING) WITH (kafka_topic='o', value_format='JSON'); INSERT INTO o SELECT id, v FROM s;

-- refused: Incompatible schema between results and sink. Result schema is `ID`
CREATE STREAM o (id INT KEY, w INT) WITH (kafka_topic='o', value_format='JSON'); INSERT INTO o SELECT id, v FROM s;

-- refused: Incompatible schema between results and sink. Result schema is `ID`
CREATE STREAM o (id INT, v INT) WITH (kafka_topic='o', value_format='JSON'); INSERT INTO o SELECT id, v FROM s;

-- refused: Incompatible schema between results and sink. Result schema is `ID`
CREATE STREAM o (v INT, id INT KEY) WITH (kafka_topic='o', value_format='JSON'); INSERT INTO o SELECT id, v, w FROM s;

-- refused: Source NOPE does not exist.
INSERT INTO nope SELECT id, v FROM s;

-- refused: INSERT INTO can only be used to insert into a stream. T is a table.
INSERT INTO t SELECT id, v FROM s;

-- refused: INSERT INTO can only be used to insert into a stream, but the query
INSERT INTO s2 SELECT id AS id2, COUNT(*) AS v FROM s GROUP BY id;

-- refused: Invalid config variable(s) in the WITH clause: FOO
CREATE STREAM o (id INT KEY, v INT) WITH (kafka_topic='o', value_format='JSON'); INSERT INTO o WITH (foo='foo') SELECT id, v FROM s;

-- refused: Incompatible windows between results and sink: O is SESSION windowed,
CREATE STREAM o (id INT KEY, v INT) WITH (kafka_topic='o', value_format='JSON', window_type='SESSION'); INSERT INTO o SELECT id, v FROM s;

-- joins of streams

-- refused: The query used to build `O` must include the join expressions S.ID or S2.ID2 in its projection (eg, SELECT S.ID...).
CREATE STREAM o AS SELECT s.v AS a FROM s JOIN s2 WITHIN 10 SECONDS ON s.id = s2.id2;

-- refused: The query used to build `O` must include the join expression ROWKEY in its projection (eg, SELECT ROWKEY...).
CREATE STREAM o AS SELECT id, id2, s.v AS a FROM s FULL OUTER JOIN s2 WITHIN 10 SECONDS ON s2.id2 = s.id;

-- refused: The query used to build `O` must include the join expression S.ID in its projection (eg, SELECT S.ID...).
CREATE STREAM o AS SELECT id2, s2.v FROM s JOIN s2 WITHIN 10 SECONDS ON s2.id2 + 1 = s.id;

-- refused: SELECT column 'S.ROWKEY' cannot be resolved.
CREATE STREAM o AS SELECT s.ROWKEY, s.v FROM s JOIN s2 WITHIN 10 SECONDS ON s2.id2 + 1 = s.id + 1;

-- refused: WHERE column 'ROWKEY' cannot be resolved.
CREATE STREAM o AS SELECT id, s2.v FROM s JOIN s2 WITHIN 10 SECONDS ON s2.id2 + 1 = s.id WHERE ROWKEY = 1;

-- refused: Stream-Stream joins must have a WITHIN clause specified. None was
CREATE STREAM o AS SELECT * FROM s JOIN s2 ON s.id = s2.id2;

-- refused: Invalid join condition: types don't match. Got S.W{STRING} =
CREATE STREAM o AS SELECT * FROM s JOIN s2 WITHIN 10 SECONDS ON s.w = s2.id2;

-- refused: Invalid join condition: joins on multiple conditions are not yet
CREATE STREAM o AS SELECT * FROM s JOIN s2 WITHIN 10 SECONDS ON s.id = s2.id2 AND s.v = s2.v;

-- refused: Only equality join criteria is supported.
CREATE STREAM o AS SELECT * FROM s JOIN s2 WITHIN 10 SECONDS ON s.id > s2.id2;

-- refused: Each side of the join must reference exactly one source and not the
CREATE STREAM o AS SELECT * FROM s JOIN s2 WITHIN 10 SECONDS ON s.id = s.v;

-- refused: Invalid comparison expression '1' in join '(S.ID = 1)'. Each side of
CREATE STREAM o AS SELECT * FROM s JOIN s2 WITHIN 10 SECONDS ON s.id = 1;

-- refused: Invalid comparison expression '(S.ID + S2.V)' in join '((S.ID + S2.V)
CREATE STREAM o AS SELECT * FROM s JOIN s2 WITHIN 10 SECONDS ON s.id + s2.v = s2.id2;

-- refused: Column 'V' is ambiguous. Could be 'S.V', 'S2.V'.
CREATE STREAM o AS SELECT * FROM s JOIN s2 WITHIN 10 SECONDS ON v = s2.id2;

-- refused: Column 'V' is ambiguous. Could be 'S.V', 'S2.V'.
CREATE STREAM o AS SELECT v, id FROM s JOIN s2 WITHIN 10 SECONDS ON id = id2;

-- refused: SELECT column 'ROWTIME' cannot be resolved.
CREATE STREAM o AS SELECT id, ROWTIME AS x FROM s JOIN s2 WITHIN 10 SECONDS ON id = id2;

-- refused: Can not join 'S' to 'S': self joins are not yet supported.
CREATE STREAM o AS SELECT * FROM s JOIN s WITHIN 10 SECONDS ON s.id = s.id;

-- refused: Can not join 'S' to 'S': self joins are not yet supported.
CREATE STREAM o AS SELECT * FROM s a JOIN s b WITHIN 10 SECONDS ON a.id = b.id;

-- refused: NOPE does not exist.
CREATE STREAM o AS SELECT * FROM s JOIN nope WITHIN 10 SECONDS ON s.id = nope.id;

-- refused: 'S' is not a valid stream/table name or alias.
CREATE STREAM o AS SELECT a.* FROM s a JOIN s2 b WITHIN 1 SECOND ON s.id = b.id2;

-- joins of a stream and a table

-- refused: Invalid join condition: stream-table joins require to join on the
CREATE STREAM o AS SELECT * FROM s JOIN t ON s.id = t.v;

-- refused: RIGHT OUTER joins between streams and tables are not supported.
CREATE STREAM o AS SELECT * FROM s RIGHT JOIN t ON s.id = t.tid;

-- refused: FULL OUTER joins between streams and tables are not supported.
CREATE STREAM o AS SELECT * FROM s FULL JOIN t ON s.id = t.tid;

-- refused: A window definition was provided for a Stream-Table join. These joins
CREATE STREAM o AS SELECT * FROM s JOIN t WITHIN 1 SECOND ON s.id = t.tid;

-- refused: Invalid join order: table-stream joins are not supported; only
CREATE STREAM o AS SELECT * FROM t JOIN s ON s.id = t.tid;

-- refused: Invalid join condition: stream-table joins require to join on the
CREATE STREAM o AS SELECT * FROM s JOIN t ON s.id = t.tid + 0;

-- refused: Invalid join condition: joins on a table with multiple primary key
CREATE STREAM o AS SELECT * FROM s JOIN mt ON s.id = mt.k1;

-- refused: Invalid result type. Your SELECT query produces a STREAM. Please use
CREATE TABLE o AS SELECT * FROM s JOIN t ON s.id = t.tid;

-- joins of tables

-- refused: A window definition was provided for a Table-Table join. These joins
CREATE TABLE o AS SELECT * FROM t JOIN t2 WITHIN 1 SECOND ON t.tid = t2.tid2;

-- refused: Invalid join condition: table-table joins require to join on the
CREATE TABLE o AS SELECT * FROM t JOIN t2 ON t.tid = t2.z;

-- refused: Primary key column missing in projection. For foreign-key table-table joins, the projection must include all primary key columns from the left input table (`T`). Missing column: `TID`.
CREATE TABLE o AS SELECT tid2, y, q FROM t LEFT JOIN t2 ON t2.tid2 = t.fk;

-- refused: RIGHT OUTER JOIN on a foreign key is not supported
CREATE TABLE o AS SELECT tid, y, q FROM t RIGHT JOIN t2 ON t2.tid2 = t.fk;

-- refused: FULL OUTER JOIN on a foreign key is not supported
CREATE TABLE o AS SELECT tid, y, q FROM t FULL JOIN t2 ON t2.tid2 = t.fk;

-- refused: Invalid join condition: types don't match. Got T.Y{STRING} =
CREATE TABLE o AS SELECT tid, y, q FROM t LEFT JOIN t2 ON t2.tid2 = t.y;

-- refused: Primary key column missing in projection. For foreign-key table-table joins, the projection must include all primary key columns from the left input table (`MT`). Missing column: `K1`.
CREATE TABLE o AS SELECT k2, q FROM mt JOIN t2 ON mt.k1 = t2.tid2;

-- refused: Invalid join condition: joins on a table with multiple primary key
CREATE TABLE o AS SELECT * FROM t JOIN mt ON t.tid = mt.k1;

-- refused: Can not join 'T' to 'T': self joins are not yet supported.
CREATE TABLE o AS SELECT * FROM t JOIN t ON t.tid = t.tid;

-- joins of several sources

-- refused: The query used to build `O` must include the join expressions S2.V or T.TID in its projection (eg, SELECT S2.V...).
CREATE STREAM o AS SELECT id, id2 FROM s JOIN s2 WITHIN 1 SECOND ON s.id = s2.id2 JOIN t ON t.tid = s2.v;

-- refused: Invalid join condition: joins on a table with multiple primary key
CREATE TABLE o AS SELECT * FROM t JOIN t2 ON t.fk = t2.tid2 JOIN mt ON mt.k1 = t.tid;

-- refused: 'T2' is not a valid stream/table name or alias.
CREATE STREAM o AS SELECT id FROM s JOIN s2 WITHIN 1 SECOND ON s.id = s2.id2 JOIN t ON t.tid = t2.tid2 JOIN t2 ON t.tid = t2.tid2;

-- refused: Invalid join condition: the condition must name T and a source that
CREATE STREAM o AS SELECT id FROM s JOIN s2 WITHIN 1 SECOND ON s.id = s2.id2 JOIN t ON s.id = s2.id2;

-- refused: N-way joins do not support multiple occurrences of the same source.
CREATE STREAM o AS SELECT id FROM s JOIN s2 WITHIN 1 SECOND ON s.id = s2.id2 JOIN s WITHIN 1 SECOND ON s.id = s2.id2;

-- joins of windowed sources

-- refused: Can not join windowed source to non-windowed source. The left side is
CREATE STREAM o AS SELECT * FROM ws JOIN s WITHIN 1 SECOND ON ws.id = s.id;

-- refused: Incompatible windowed sources.
CREATE STREAM o AS SELECT * FROM ws JOIN wss WITHIN 1 SECOND ON ws.id = wss.id;

-- refused: Implicit repartitioning of windowed sources is not supported.
CREATE STREAM o AS SELECT * FROM ws JOIN ws2 WITHIN 1 SECOND ON ws.v = ws2.v;

-- refused: Can not join windowed source to non-windowed source. The left side is
CREATE STREAM o AS SELECT * FROM ws JOIN t ON ws.id = t.tid;

-- refused: Implicit repartitioning of windowed sources is not supported.
CREATE STREAM o AS SELECT * FROM ws JOIN wt ON ws.v = wt.id;

-- refused: Source(s) KS are using the 'KAFKA' value format. This format does not
CREATE STREAM o AS SELECT id, v FROM ks JOIN s2 WITHIN 1 SECOND ON ks.id = s2.id2;

-- joins with other clauses

-- refused: The projection contains a key column (`S.ID`) more than once, aliased as: ID and X.
CREATE STREAM o AS SELECT s.id, s.id AS x, s.v FROM s JOIN s2 WITHIN 10 SECONDS ON s.id = s2.id2;

-- refused: The projection contains a duplicate column: `S2_V`.
CREATE STREAM o AS SELECT s.id AS s2_v, s2.v FROM s JOIN s2 WITHIN 10 SECONDS ON s.id = s2.id2;

-- CREATE, ALTER and DROP

-- refused: Cannot add stream 'X': A stream with the same name already exists
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON'); CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON');

-- refused: 'ROWTIME' is a reserved column name.
CREATE STREAM x (rowtime INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON');

-- refused: Column `ID` is a 'KEY' column: please use 'PRIMARY KEY' for tables.
CREATE TABLE x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON');

-- refused: Tables require a PRIMARY KEY. Please define the PRIMARY KEY.
CREATE TABLE x (id INT, v INT) WITH (kafka_topic='x', value_format='JSON');

-- refused: Column `ID` is a 'PRIMARY KEY' column: please use 'KEY' for streams.
CREATE STREAM x (id INT PRIMARY KEY, v INT) WITH (kafka_topic='x', value_format='JSON');

-- refused: Duplicate column names: ID
CREATE STREAM x (id INT KEY, id INT) WITH (kafka_topic='x', value_format='JSON');

-- refused: Missing required property "KAFKA_TOPIC" which has no default value.
CREATE STREAM x (id INT KEY, v INT) WITH (value_format='JSON');

-- refused: Statement is missing the 'VALUE_FORMAT' property from the WITH
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x');

-- refused: Unknown format: FOO
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='FOO');

-- refused: Invalid config variable(s) in the WITH clause: FOO
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON', foo='y');

-- refused: Cannot supply both 'VALUE_FORMAT' and 'FORMAT' properties, as 'FORMAT' sets both key and value formats.
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON', format='JSON');

-- refused: Invalid value 'x' for property PARTITIONS: it must be a whole number.
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON', partitions='x');

-- refused: Invalid value 0 for property PARTITIONS: it must be a number of at
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON', partitions=0);

-- refused: Invalid value -1 for property PARTITIONS: it must be a number of at
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON', partitions=-1);

-- refused: Invalid value 0 for property REPLICAS: it must be a number of at
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON', partitions=1, replicas=0);

-- refused: 'WRAP_SINGLE_VALUE' is only valid for single-field value schemas
CREATE STREAM x (id INT KEY, v INT, w INT) WITH (kafka_topic='x', value_format='JSON', wrap_single_value=false);

-- refused: Format 'DELIMITED' does not support 'WRAP_SINGLE_VALUE' set to 'true'.
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='DELIMITED', wrap_single_value=true);

-- refused: JSON does not support the following configs: [delimiter]
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON', value_delimiter='|');

-- refused: Invalid value '||' for property VALUE_DELIMITER: it must be one
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='DELIMITED', value_delimiter='||');

-- refused: Invalid value '' for property VALUE_DELIMITER: it must be one
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='DELIMITED', value_delimiter='');

-- refused: TUMBLING windows require 'WINDOW_SIZE' to be provided in the WITH
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON', window_type='TUMBLING');

-- refused: 'WINDOW_SIZE' should not be set for SESSION windows.
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON', window_type='SESSION', window_size='1 SECOND');

-- refused: Windowed sources require a key column.
CREATE STREAM x (v INT) WITH (kafka_topic='x', value_format='JSON', window_type='SESSION');

-- refused: WINDOW_SIZE needs WINDOW_TYPE
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON', window_size='1 SECOND');

-- refused: Invalid value '1 SECO' for property WINDOW_SIZE: it must be a
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON', window_type='TUMBLING', window_size='1 SECO');

-- refused: Invalid value '0 SECONDS' for property WINDOW_SIZE: it must be a
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON', window_type='TUMBLING', window_size='0 SECONDS');

-- refused: Invalid value 'FOO' for property WINDOW_TYPE: it must be TUMBLING,
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON', window_type='FOO', window_size='1 SECOND');

-- refused: Map keys, including types that contain maps, are not supported as
CREATE STREAM x (id MAP<STRING,INT> KEY, v INT) WITH (kafka_topic='x', key_format='JSON', value_format='JSON');

-- refused: Map keys, including types that contain maps, are not supported as
CREATE STREAM x (id STRUCT<a MAP<STRING,INT>> KEY, v INT) WITH (kafka_topic='x', key_format='JSON', value_format='JSON');

-- refused: The 'KAFKA' format does not support type 'BOOLEAN'
CREATE STREAM x (id BOOLEAN KEY, v INT) WITH (kafka_topic='x', value_format='JSON');

-- refused: The 'KAFKA' format only supports a single field. Got: [`ID` INTEGER
CREATE STREAM x (id INT KEY, k2 INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON');

-- refused: The 'DELIMITED' format does not support type 'ARRAY'
CREATE STREAM x (id INT KEY, v ARRAY<INT>) WITH (kafka_topic='x', value_format='DELIMITED');

-- refused: The 'NONE' format can only be used when no columns are defined. Got:
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', key_format='NONE', value_format='JSON');

-- refused: The 'NONE' format can only be used when no columns are defined. Got:
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='NONE');

-- refused: The 'NONE' format can only be used when no columns are defined. Got:
CREATE STREAM x (id INT KEY) WITH (kafka_topic='x', format='NONE');

-- refused: JSON only supports MAP types with STRING keys
CREATE STREAM x (id INT KEY, m MAP<INT,INT>) WITH (kafka_topic='x', value_format='JSON');

-- refused: Invalid type for HEADERS column: expected ARRAY<STRUCT<`KEY` STRING,
CREATE STREAM x (id INT KEY, h ARRAY<STRING> HEADERS) WITH (kafka_topic='x', value_format='JSON');

-- refused: Invalid type for HEADER('x') column: expected BYTES, got STRING
CREATE STREAM x (id INT KEY, h STRING HEADER('x')) WITH (kafka_topic='x', value_format='JSON');

-- refused: Schema already contains a HEADER('x') column.
CREATE STREAM x (id INT KEY, h BYTES HEADER('x'), h2 BYTES HEADER('x')) WITH (kafka_topic='x', value_format='JSON');

-- refused: Schema already contains a HEADERS column.
CREATE STREAM x (id INT KEY, h ARRAY<STRUCT<KEY STRING, VALUE BYTES>> HEADERS, h2 BYTES HEADER('x')) WITH (kafka_topic='x', value_format='JSON');

-- refused: Only one of HEADERS or HEADER('key') columns is allowed.
CREATE STREAM x (id INT KEY, h ARRAY<STRUCT<KEY STRING, VALUE BYTES>> HEADERS, h2 ARRAY<STRUCT<KEY STRING, VALUE BYTES>> HEADERS) WITH (kafka_topic='x', value_format='JSON');

-- refused: Cannot insert into HEADER columns: H
CREATE STREAM x (id INT KEY, v INT, h BYTES HEADER('x')) WITH (kafka_topic='x', value_format='JSON'); INSERT INTO x (id, h) VALUES (1, NULL);

-- refused: Cannot insert into X because it has header columns
CREATE STREAM x (id INT KEY, v INT, h BYTES HEADER('x')) WITH (kafka_topic='x', value_format='JSON'); CREATE STREAM y (id INT KEY, v INT) WITH (kafka_topic='y', value_format='JSON'); INSERT INTO x SELECT * FROM y;

-- refused: Cannot add stream/table: CREATE OR REPLACE is not supported on source
CREATE OR REPLACE SOURCE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON');

-- refused: Cannot insert values into read-only stream: X
CREATE SOURCE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON'); INSERT INTO x VALUES (1, 2);

-- refused: Cannot insert into read-only stream: X
CREATE SOURCE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON'); CREATE STREAM y (id INT KEY, v INT) WITH (kafka_topic='y', value_format='JSON'); INSERT INTO x SELECT * FROM y;

-- refused: ALTER command is not supported for X: it is read-only.
CREATE SOURCE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON'); ALTER STREAM x ADD w INT;

-- refused: Cannot delete topic for read-only source: X
CREATE SOURCE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON'); DROP STREAM x DELETE TOPIC;

-- refused: Cannot add stream 'X': CREATE OR REPLACE is not supported on source streams.
CREATE SOURCE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON'); CREATE OR REPLACE STREAM x (id INT KEY, v INT, w INT) WITH (kafka_topic='x', value_format='JSON');

-- refused: ALTER command is not supported for Y: it is created by a query
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON'); CREATE STREAM y AS SELECT * FROM x; ALTER STREAM y ADD w INT;

-- refused: expected ';', found 'KEY'
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON'); ALTER STREAM x ADD w INT KEY;

-- refused: Cannot add column `V` to schema. It exists already.
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON'); ALTER STREAM x ADD v INT;

-- refused: Incompatible data source type is STREAM, but statement was ALTER TABLE
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON'); ALTER TABLE x ADD w INT;

-- refused: 'ROWTIME' is a reserved column name.
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON'); ALTER STREAM x ADD rowtime INT;

-- refused: Type FOO does not exist.
DROP TYPE foo;

-- refused: Cannot register custom type 'FOO' since it is already registered with
CREATE TYPE foo AS INT; CREATE TYPE foo AS INT;

-- refused: Duplicate field names found in STRUCT
CREATE STREAM o (id INT KEY, v STRUCT<a INT, b ARRAY<STRUCT<c INT, C STRING>>>) WITH (kafka_topic='o', value_format='JSON');

-- refused: Cannot resolve unknown type: FOO
CREATE STREAM x (id INT KEY, v FOO) WITH (kafka_topic='x', value_format='JSON');

-- refused: Cannot drop X. The following queries read from this source:
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON'); CREATE STREAM y AS SELECT * FROM x; DROP STREAM x;

-- refused: Incompatible data source type is STREAM, but statement was DROP TABLE
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON'); DROP TABLE x;

-- refused: Incompatible data source type is STREAM, but statement was DROP TABLE
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON'); DROP TABLE IF EXISTS x;

-- refused: The TIMESTAMP column set in the WITH clause does not exist in the
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON', timestamp='x');

-- refused: Timestamp column, `V`, should be LONG(INT64), TIMESTAMP, or a String
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON', timestamp='v');

-- refused: A String timestamp field must be specified with a timestamp_format:
CREATE STREAM x (id INT KEY, v STRING) WITH (kafka_topic='x', value_format='JSON', timestamp='v');

-- refused: Invalid pattern 'bbbb': Unknown pattern letter: b, in 'bbbb'
CREATE STREAM x (id INT KEY, v STRING) WITH (kafka_topic='x', value_format='JSON', timestamp='v', timestamp_format='bbbb');

-- refused: DECIMAL precision must be >= scale: DECIMAL(2,4)
CREATE STREAM x (id INT KEY, v DECIMAL(2,4)) WITH (kafka_topic='x', value_format='JSON');

-- refused: expected ',', found ')'
CREATE STREAM x (id INT KEY, v DECIMAL(2)) WITH (kafka_topic='x', value_format='JSON');

-- refused: Table elements and VALUE_SCHEMA_ID cannot both exist for create
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='AVRO', value_schema_id=1);

-- refused: VALUE_SCHEMA_ID is provided but format JSON doesn't support
CREATE STREAM x (id INT KEY) WITH (kafka_topic='x', value_format='JSON', value_schema_id=1);

-- refused: JSON does not support the following configs: [fullSchemaName]
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON', value_schema_full_name='x');

-- refused: Invalid value '' for property VALUE_SCHEMA_FULL_NAME: it must be a
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='AVRO', value_schema_full_name='');

-- refused: KAFKA does not support the following configs: [fullSchemaName]
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='AVRO', key_schema_full_name='x');

-- refused: KAFKA does not support the following configs: [delimiter]
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON', key_delimiter='|');

-- refused: JSON does not support the following configs: [nullableRepresentation]
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON', VALUE_PROTOBUF_NULLABLE_REPRESENTATION='OPTIONAL');

-- refused: Invalid value 'FOO' for property
CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='PROTOBUF', VALUE_PROTOBUF_NULLABLE_REPRESENTATION='FOO');

-- INSERT INTO … VALUES

-- refused: Column `ID` is listed twice.
INSERT INTO s (id, id) VALUES (1, 2);

-- refused: Column name `NOPE` does not exist.
INSERT INTO s (id, nope) VALUES (1, 2);

-- refused: Expected type INTEGER for field `V` but got STRING
INSERT INTO s (id, v) VALUES (1, 'x');

-- refused: is required for tables
INSERT INTO mt (k1, v) VALUES (1, 2);

-- refused: Cannot insert values into windowed stream/table!
INSERT INTO ws (id, v) VALUES (1, 2);

-- refused: Inserting into column `ROWPARTITION` is not allowed.
INSERT INTO s (ROWPARTITION, id, v) VALUES (1234, 1, 2);
