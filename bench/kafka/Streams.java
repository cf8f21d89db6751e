import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;

/** The same work by Kafka Streams: Streams SERVERS APPLICATION CASE INPUT STATE_DIRECTORY [key=value ...]. */
public class Streams {
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
        if (given[2].equals("count")) {
            in.groupByKey().count().toStream().to(out, Produced.with(Serdes.String(), Serdes.Long()));
        } else {
            in.mapValues(value -> value.toUpperCase()).to(out, Produced.with(Serdes.String(), Serdes.String()));
        }
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> { streams.close(); ended.countDown(); }));
        streams.start();
        ended.await();
    }
}
