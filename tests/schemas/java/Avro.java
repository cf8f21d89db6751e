import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.time.temporal.ChronoUnit;
import java.util.Collection;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.avro.Conversions;
import org.apache.avro.Schema;
import org.apache.avro.SchemaNormalization;
import org.apache.avro.data.TimeConversions;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.IndexedRecord;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.avro.util.RandomData;

/** Apache Avro for Java behind pipes: each line of stdin is a request in JSON, each line of stdout its answer. */
public class Avro {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final GenericData DATA = new GenericData();

    public static void main(String[] arguments) throws Exception {
        DATA.addLogicalTypeConversion(new Conversions.DecimalConversion());
        DATA.addLogicalTypeConversion(new Conversions.UUIDConversion());
        DATA.addLogicalTypeConversion(new TimeConversions.DateConversion());
        DATA.addLogicalTypeConversion(new TimeConversions.TimeMillisConversion());
        DATA.addLogicalTypeConversion(new TimeConversions.TimeMicrosConversion());
        DATA.addLogicalTypeConversion(new TimeConversions.TimestampMillisConversion());
        DATA.addLogicalTypeConversion(new TimeConversions.TimestampMicrosConversion());
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer(JSON.readTree(line), answer);
            } catch (Exception | StackOverflowError error) {
                answer.put("error", error.toString());
            }
            System.out.write((JSON.writeValueAsString(answer) + "\n").getBytes(StandardCharsets.UTF_8));
            System.out.flush();
        }
    }

    private static void answer(JsonNode request, ObjectNode answer) throws Exception {
        Schema writer = new Schema.Parser().parse(request.get("schema").asText());
        answer.put("fingerprint", Long.toHexString(SchemaNormalization.parsingFingerprint64(writer)));
        answer.put("canonical", SchemaNormalization.toParsingForm(writer));
        if (request.has("seed")) {
            Object random = new RandomData(writer, 1, request.get("seed").asLong()).iterator().next();
            answer.put("random", HEX.formatHex(encode(writer, random, new GenericData())));
        }
        if (!request.has("data")) {
            return;
        }
        Schema reader = request.has("reader") ? new Schema.Parser().parse(request.get("reader").asText()) : writer;
        BinaryDecoder decoder = DecoderFactory.get().binaryDecoder(HEX.parseHex(request.get("data").asText()), null);
        Object value = new GenericDatumReader<Object>(writer, reader, DATA).read(null, decoder);
        if (!decoder.isEnd()) {
            throw new IllegalStateException("bytes are left");
        }
        answer.set("value", plain(reader, value));
        answer.put("data", HEX.formatHex(encode(reader, value, DATA)));
    }

    private static byte[] encode(Schema schema, Object value, GenericData data) throws Exception {
        var out = new ByteArrayOutputStream();
        BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(out, null);
        new GenericDatumWriter<Object>(schema, data).write(value, encoder);
        encoder.flush();
        return out.toByteArray();
    }

    /** A value in a form that Python makes, too: numbers as text, floats as their bits, bytes in hexadecimal. */
    private static JsonNode plain(Schema schema, Object value) {
        if (schema.getType() == Schema.Type.UNION) {
            int branch = DATA.resolveUnion(schema, value);
            return JSON.createArrayNode().add(branch).add(plain(schema.getTypes().get(branch), value));
        }
        if (value == null) {
            return JSON.nullNode();
        }
        if (value instanceof IndexedRecord) {
            ObjectNode node = JSON.createObjectNode();
            for (Schema.Field field : schema.getFields()) {
                node.set(field.name(), plain(field.schema(), ((IndexedRecord) value).get(field.pos())));
            }
            return node;
        }
        if (value instanceof Collection) {
            ArrayNode node = JSON.createArrayNode();
            ((Collection<?>) value).forEach(item -> node.add(plain(schema.getElementType(), item)));
            return node;
        }
        if (value instanceof Map) {
            var sorted = new TreeMap<String, JsonNode>();
            ((Map<?, ?>) value).forEach((key, item) -> sorted.put(key.toString(), plain(schema.getValueType(), item)));
            return JSON.valueToTree(sorted);
        }
        return JSON.getNodeFactory().textNode(text(value));
    }

    private static String text(Object value) {
        if (value instanceof Float) {
            return Integer.toHexString(Float.floatToRawIntBits((Float) value));
        }
        if (value instanceof Double) {
            return Long.toHexString(Double.doubleToRawLongBits((Double) value));
        }
        if (value instanceof ByteBuffer) {
            ByteBuffer buffer = ((ByteBuffer) value).duplicate();
            byte[] bytes = new byte[buffer.remaining()];
            buffer.get(bytes);
            return HEX.formatHex(bytes);
        }
        if (value instanceof GenericFixed) {
            return HEX.formatHex(((GenericFixed) value).bytes());
        }
        if (value instanceof BigDecimal) {
            return ((BigDecimal) value).unscaledValue() + "e-" + ((BigDecimal) value).scale();
        }
        if (value instanceof LocalDate) {
            return Long.toString(((LocalDate) value).toEpochDay());
        }
        if (value instanceof LocalTime) {
            return Long.toString(((LocalTime) value).toNanoOfDay() / 1000);
        }
        if (value instanceof Instant) {
            return Long.toString(ChronoUnit.MICROS.between(Instant.EPOCH, (Instant) value));
        }
        return value.toString();
    }
}
