import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.*;

/** Logs Java's clients in by every way and says what became of each step, as JSON lines. Its arguments are key=value, as secured.go has them. */
public class Secured {
    static final Map<String, String> c = new HashMap<>();

    interface Step {
        void run() throws Exception;
    }

    static Properties conf(String way, boolean good) {
        Properties p = new Properties();
        p.put("ssl.truststore.type", "PEM");
        p.put("ssl.truststore.location", c.get("ca"));
        p.put("max.block.ms", "20000");
        if (way.equals("SSL")) {
            p.put("bootstrap.servers", c.get("ssl"));
            p.put("security.protocol", "SSL");
            p.put("ssl.keystore.type", "PEM");
            p.put("ssl.keystore.location", good ? c.get("pem") : c.get("otherPem"));
            return p;
        }
        p.put("bootstrap.servers", c.get("sasl"));
        p.put("security.protocol", "SASL_SSL");
        p.put("sasl.mechanism", way);
        if (way.equals("OAUTHBEARER")) {
            p.put("sasl.oauthbearer.token.endpoint.url", "file://" + (good ? c.get("tokenFile") : c.get("otherTokenFile")));
            p.put("sasl.login.callback.handler.class", "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler");
            p.put("sasl.jaas.config", "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;");
            return p;
        }
        String module = way.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        p.put("sasl.jaas.config", "org.apache.kafka.common.security." + module + " required username=\"" + c.get("user") + "\" password=\""
            + (good ? c.get("password") : c.get("otherPassword")) + "\";");
        return p;
    }

    static void produce(String way, String to, boolean good) throws Exception {
        try (var p = new KafkaProducer<>(conf(way, good), new StringSerializer(), new StringSerializer())) {
            p.send(new ProducerRecord<>(to, way)).get();
        }
    }

    static void transact(String way, String id) throws Exception {
        Properties conf = conf(way, true);
        conf.put("transactional.id", id);
        try (var p = new KafkaProducer<>(conf, new StringSerializer(), new StringSerializer())) {
            p.initTransactions();
            p.beginTransaction();
            p.send(new ProducerRecord<>("t-java", way)).get();
            p.commitTransaction();
        }
    }

    static void consume(String way, String group) throws Exception {
        Properties conf = conf(way, true);
        conf.put("group.id", group);
        conf.put("auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(conf, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("t-java"));
            for (long end = System.currentTimeMillis() + 20000; System.currentTimeMillis() < end; ) {
                for (var record : consumer.poll(Duration.ofMillis(200))) {
                    if (record.value().equals(way)) {
                        return;
                    }
                }
            }
            throw new IllegalStateException("not read");
        }
    }

    static void step(String way, String step, Step work) {
        String outcome = "ok";
        try {
            work.run();
        } catch (Exception e) {
            Throwable cause = e instanceof ExecutionException ? e.getCause() : e;
            System.err.println(way + " " + step + ": " + cause);
            outcome = cause.getClass().getSimpleName();
        }
        System.out.println("{\"way\":\"" + way + "\",\"step\":\"" + step + "\",\"outcome\":\"" + outcome + "\"}");
    }

    public static void main(String[] args) {
        for (String arg : args) {
            int at = arg.indexOf('=');
            c.put(arg.substring(0, at), arg.substring(at + 1));
        }
        for (String way : c.get("ways").split(",")) {
            step(way, "produce", () -> produce(way, "t-java", true));
            step(way, "consume", () -> consume(way, "g-java-" + way));
            step(way, "transact", () -> transact(way, "x-java-" + way));
            step(way, "login", () -> produce(way, "t-java", false));
            step(way, "topic", () -> produce(way, "secret", true));
            step(way, "group", () -> consume(way, "secret"));
            step(way, "txn", () -> transact(way, "secret"));
        }
    }
}
