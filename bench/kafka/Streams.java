import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;

/** The same work by Kafka Streams: Streams SERVERS APPLICATION CASE INPUT STATE_DIRECTORY [key=value ...]. */
public class Streams {
    private static final Grouped<String, String> STRINGS = Grouped.with(Serdes.String(), Serdes.String());

    public static void main(String[] given) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, given[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, given[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, given[4]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put("auto.offset.reset", "earliest");
        for (int place = 5; place < given.length; place++) {
            String[] pair = given[place].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> in = builder.stream(given[3], Consumed.with(Serdes.String(), Serdes.String()));
        String out = given[1] + "-out";
        switch (given[2]) {
            case "count" -> in.groupByKey().count().toStream().to(out, Produced.with(Serdes.String(), Serdes.Long()));
            case "map" -> write(in.mapValues(value -> value.toUpperCase()), out);
            case "windows" -> in.groupByKey()
                .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(1), Duration.ofSeconds(10)))
                .count()
                .toStream()
                .to(out, Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 60_000L), Serdes.Long()));
            case "stream-table" -> write(in.join(table(builder), (value, row) -> row + value), out);
            case "table-table" -> write(in.toTable().join(table(builder), (value, row) -> row + value).toStream(), out);
            case "rekeyed" -> in.groupBy((key, value) -> value.substring(2, 8), STRINGS)
                .count()
                .toStream()
                .to(out, Produced.with(Serdes.String(), Serdes.Long()));
            case "one-exchange" -> write(withPayment(builder, byField(1, latest(in))), out);
            case "two-exchanges" -> write(withPayment(builder, byField(1, latest(byField(2, latest(in))))), out);
            default -> throw new IllegalArgumentException(given[2]);
        }
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> { streams.close(); ended.countDown(); }));
        streams.start();
        ended.await();
    }

    private static KTable<String, String> table(StreamsBuilder builder) {
        return builder.table("table", Consumed.with(Serdes.String(), Serdes.String()));
    }

    private static void write(KStream<String, String> results, String topic) {
        results.to(topic, Produced.with(Serdes.String(), Serdes.String()));
    }

    /** A stateful operator: the latest payment of each key. */
    private static KStream<String, String> latest(KStream<String, String> payments) {
        return payments
            .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
            .reduce((last, next) -> next, Materialized.with(Serdes.String(), Serdes.String()))
            .toStream();
    }

    /** Payments are "payment order account". */
    private static KStream<String, String> byField(int field, KStream<String, String> payments) {
        return payments.selectKey((key, payment) -> payment.split(" ")[field]);
    }

    private static KStream<String, String> withPayment(StreamsBuilder builder, KStream<String, String> payments) {
        KStream<String, String> orders = builder.stream("orders", Consumed.with(Serdes.String(), Serdes.String()));
        return orders.leftJoin(
            payments,
            (order, payment) -> order + " " + (payment == null ? "-" : payment.split(" ")[0]),
            JoinWindows.ofTimeDifferenceAndGrace(Duration.ofMinutes(10), Duration.ofMinutes(2)),
            StreamJoined.with(Serdes.String(), Serdes.String(), Serdes.String()));
    }
}
