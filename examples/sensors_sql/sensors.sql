-- Sensors of a mill: alarms, averages, and how long a bearing was hot.

CREATE STREAM readings (sensor STRING KEY, celsius DOUBLE, battery INT)
    WITH (kafka_topic='readings', value_format='DELIMITED');

CREATE STREAM alarms WITH (value_format='JSON') AS
    SELECT sensor, 'heat' AS kind, CONCAT(CAST(celsius AS STRING), ' °C') AS what FROM readings WHERE celsius > 75;

-- Two queries write the same stream.
INSERT INTO alarms
    SELECT sensor, 'battery' AS kind, CONCAT(CAST(battery AS STRING), ' %') AS what FROM readings WHERE battery < 5;

-- Each window once, when it is over.
CREATE TABLE averages WITH (value_format='JSON') AS
    SELECT sensor, COUNT(*) AS readings, SUM(celsius) / COUNT(*) AS celsius
    FROM readings WINDOW HOPPING (SIZE 10 MINUTES, ADVANCE BY 5 MINUTES, GRACE PERIOD 1 MINUTE)
    GROUP BY sensor
    EMIT FINAL;

-- A spell ends when a sensor reports no heat for two minutes.
CREATE TABLE hot_spells WITH (value_format='JSON') AS
    SELECT sensor, COUNT(*) AS readings, MAX(celsius) AS hottest, (WINDOWEND - WINDOWSTART) / 1000 AS duration
    FROM readings WINDOW SESSION (2 MINUTES, GRACE PERIOD 1 MINUTE)
    WHERE celsius > 60
    GROUP BY sensor;
