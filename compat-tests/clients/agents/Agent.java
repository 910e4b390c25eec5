import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Drives the Java client with operations as JSON lines: java Agent.java ADDR [group protocol]. */
public class Agent {
    private static final ObjectMapper JSON = new ObjectMapper();
    private final String addr;
    private final String protocol;
    private final Map<String, KafkaConsumer<byte[], byte[]>> members = new HashMap<>();

    private Agent(String addr, String protocol) {
        this.addr = addr;
        this.protocol = protocol;
    }

    public static void main(String[] args) throws Exception {
        Agent agent = new Agent(args[0], args.length > 1 ? args[1] : "classic");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode reply = JSON.createObjectNode();
            try {
                agent.run(JSON.readTree(line), reply);
            } catch (Exception e) {
                reply.put("error", e.toString());
            }
            System.out.println(JSON.writeValueAsString(reply));
        }
        System.exit(0);
    }

    private void run(JsonNode op, ObjectNode reply) throws Exception {
        switch (op.get("op").asText()) {
            case "create" -> create(op);
            case "produce" -> produce(op);
            case "transact" -> transact(op);
            case "consume" -> consume(op, reply);
            case "join" -> join(op);
            case "poll" -> poll(op, reply);
            case "commit" -> members.get(op.get("member").asText()).commitSync();
            case "leave" -> members.remove(op.get("member").asText()).close();
            case "offsetForTime" -> offsetForTime(op, reply);
            default -> throw new IllegalArgumentException("unknown operation " + op);
        }
    }

    private void create(JsonNode op) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", addr))) {
            admin.createTopics(List.of(new NewTopic(op.get("topic").asText(), op.get("partitions").asInt(), (short) 1))).all().get();
        }
    }

    private void produce(JsonNode op) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", addr, "compression.type", op.get("codec").asText(),
            "enable.idempotence", op.path("idempotent").asBoolean(), "acks", "all", "linger.ms", 5);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            send(producer, op);
        }
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, JsonNode op) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode r : op.get("records")) {
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(op.get("topic").asText(), r.get("partition").asInt(),
                r.get("timeMs").asLong(), r.get("key").binaryValue(), r.get("value").binaryValue());
            for (JsonNode h : r.path("headers"))
                record.headers().add(h.get(0).asText(), h.get(1).asText().getBytes());
            sent.add(producer.send(record));
        }
        for (Future<RecordMetadata> f : sent)
            f.get();
    }

    private void transact(JsonNode op) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", addr, "transactional.id", op.get("transactionalId").asText(), "linger.ms", 5);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, op);
            TopicPartition partition = new TopicPartition(op.get("topic").asText(), 0);
            producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(op.get("offset").asLong())),
                new ConsumerGroupMetadata(op.get("group").asText()));
            if (op.path("commit").asBoolean())
                producer.commitTransaction();
            else
                producer.abortTransaction();
        }
    }

    private KafkaConsumer<byte[], byte[]> consumer(String group, boolean committed) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", addr, "enable.auto.commit", false, "auto.offset.reset", "earliest",
            "isolation.level", committed ? "read_committed" : "read_uncommitted"));
        if (group != null) {
            config.put("group.id", group);
            config.put("group.protocol", protocol);
        }
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private void consume(JsonNode op, ObjectNode reply) {
        ArrayNode out = reply.putArray("records");
        TopicPartition partition = new TopicPartition(op.get("topic").asText(), op.get("partition").asInt());
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(null, op.path("committed").asBoolean())) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, op.get("offset").asLong());
            int count = op.get("count").asInt();
            long end = System.currentTimeMillis() + 30_000;
            while (out.size() < count && System.currentTimeMillis() < end)
                for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(200)))
                    if (out.size() < count)
                        put(out.addObject(), r);
        }
    }

    private void join(JsonNode op) {
        KafkaConsumer<byte[], byte[]> consumer = consumer(op.get("group").asText(), false);
        consumer.subscribe(List.of(op.get("topic").asText()));
        members.put(op.get("member").asText(), consumer);
    }

    private void poll(JsonNode op, ObjectNode reply) {
        KafkaConsumer<byte[], byte[]> consumer = members.get(op.get("member").asText());
        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(op.get("waitMs").asLong()));
        ArrayNode out = reply.putArray("records");
        records.forEach(r -> put(out.addObject(), r));
        ArrayNode assigned = reply.putArray("assigned");
        consumer.assignment().forEach(p -> assigned.add(p.partition()));
    }

    private void offsetForTime(JsonNode op, ObjectNode reply) {
        TopicPartition partition = new TopicPartition(op.get("topic").asText(), op.get("partition").asInt());
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(null, false)) {
            reply.put("offset", consumer.offsetsForTimes(Map.of(partition, op.get("timeMs").asLong())).get(partition).offset());
        }
    }

    private static void put(ObjectNode out, ConsumerRecord<byte[], byte[]> r) {
        out.put("partition", r.partition()).put("offset", r.offset()).put("timeMs", r.timestamp()).put("key", r.key()).put("value", r.value());
        ArrayNode headers = out.putArray("headers");
        for (Header h : r.headers())
            headers.addArray().add(h.key()).add(new String(h.value()));
    }
}
