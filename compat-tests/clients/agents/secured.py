"""Logs a Python Kafka client in by every way and says what became of each step, as JSON lines: secured.py CONFIG, which is JSON (secured.go)."""

import asyncio
import json
import logging
import ssl
import sys
import time

c = json.loads(sys.argv[1])
topic, group, txn = "t-" + c["client"], "g-" + c["client"], "x-" + c["client"]
WAIT = 20


def say(way, step, outcome):
    print(json.dumps({"way": way, "step": step, "outcome": outcome}), flush=True)


def logged(logger, general, work):
    """A producer says only that it has no connection, by the general error; it logs the error that is the reason."""
    why = []
    handler = logging.Handler()
    handler.emit = lambda record: why.extend(a for a in record.args or () if isinstance(a, Exception))
    logging.getLogger(logger).addHandler(handler)
    try:
        work()
    except general as e:
        raise next((w for w in why if "Authentication" in type(w).__name__), (why or [e])[0])
    finally:
        logging.getLogger(logger).removeHandler(handler)


class Confluent:
    """librdkafka."""

    def __init__(self):
        import confluent_kafka
        self.ck = confluent_kafka

    def conf(self, way, good=True, **more):
        out = {"ssl.ca.location": c["ca"], "log_level": 0, **{k.replace("_", "."): v for k, v in more.items()}}
        if way == "SSL":
            pem = c["pem"] if good else c["otherPem"]
            return {**out, "bootstrap.servers": c["ssl"], "security.protocol": "SSL", "ssl.certificate.location": pem, "ssl.key.location": pem}
        out = {**out, "bootstrap.servers": c["sasl"], "security.protocol": "SASL_SSL", "sasl.mechanism": way}
        if way == "OAUTHBEARER":
            token = c["token"] if good else c["otherToken"]
            return {**out, "oauth_cb": lambda _: (token, time.time() + 3600)}
        return {**out, "sasl.username": c["user"], "sasl.password": c["password"] if good else c["otherPassword"]}

    def produce(self, way, to, **more):
        failed = []
        p = self.ck.Producer(self.conf(way, **more))
        if "transactional_id" in more:
            p.init_transactions(WAIT)
            p.begin_transaction()
        p.produce(to, way.encode(), on_delivery=lambda e, _: failed.append(e) if e else None)
        if p.flush(WAIT):
            raise TimeoutError("not delivered")
        if failed:
            raise self.ck.KafkaException(failed[0])
        if "transactional_id" in more:
            p.commit_transaction(WAIT)

    def transact(self, way, id):
        self.produce(way, topic, transactional_id=id)

    def consume(self, way, group):
        consumer = self.ck.Consumer(self.conf(way, group_id=group, auto_offset_reset="earliest"))
        consumer.subscribe([topic])
        try:
            end = time.time() + WAIT
            while time.time() < end:
                m = consumer.poll(0.5)
                if m is not None and m.error():
                    raise self.ck.KafkaException(m.error())
                if m is not None and m.value() == way.encode():
                    return
            raise TimeoutError("not read")
        finally:
            consumer.close()

    def login(self, way):
        """Errors of connections come by the callback alone. One of TLS 1.3 comes after the handshake, by an alert."""
        told = []
        p = self.ck.Producer({**self.conf(way, good=False), "error_cb": lambda e: told.append(f"{e.name()} {e.str()}")})
        end = time.time() + WAIT
        while time.time() < end and not any(n.startswith("_AUTHENTICATION") or "alert" in n for n in told):
            p.poll(0.1)
        raise LookupError(next((n for n in told if n.startswith("_AUTHENTICATION") or "alert" in n), str(told)))

    def name(self, error):
        return error.args[0].name() if isinstance(error, self.ck.KafkaException) else str(error)


class Python:
    """kafka-python."""

    def __init__(self):
        import kafka
        import kafka.errors
        from kafka.net.sasl.oauth import AbstractTokenProvider

        class Token(AbstractTokenProvider):
            def __init__(self, text):
                super().__init__()
                self.text = text

            def token(self):
                return self.text

        self.kafka, self.Token = kafka, Token

    def conf(self, way, good=True):
        if way == "SSL":
            pem = c["pem"] if good else c["otherPem"]
            return dict(bootstrap_servers=c["ssl"], security_protocol="SSL", ssl_cafile=c["ca"], ssl_certfile=pem, ssl_keyfile=pem)
        out = dict(bootstrap_servers=c["sasl"], security_protocol="SASL_SSL", ssl_cafile=c["ca"], sasl_mechanism=way)
        if way == "OAUTHBEARER":
            return dict(out, sasl_oauth_token_provider=self.Token(c["token"] if good else c["otherToken"]))
        return dict(out, sasl_plain_username=c["user"], sasl_plain_password=c["password"] if good else c["otherPassword"])

    def produce(self, way, to, good=True, wait=WAIT):
        p = self.kafka.KafkaProducer(max_block_ms=wait * 1000, bootstrap_timeout_ms=wait * 1000, **self.conf(way, good))
        try:
            p.send(to, way.encode()).get(WAIT)
        finally:
            p.close(1)

    def transact(self, way, id):
        p = self.kafka.KafkaProducer(transactional_id=id, max_block_ms=WAIT * 1000, **self.conf(way))
        try:
            p.init_transactions()
            p.begin_transaction()
            p.send(topic, way.encode()).get(WAIT)
            p.commit_transaction()
        finally:
            p.close(1)

    def consume(self, way, group):
        consumer = self.kafka.KafkaConsumer(topic, group_id=group, auto_offset_reset="earliest", consumer_timeout_ms=WAIT * 1000, **self.conf(way))
        try:
            if not any(m.value == way.encode() for m in consumer):
                raise TimeoutError("not read")
        finally:
            consumer.close()

    def login(self, way):
        return logged("kafka", self.kafka.errors.KafkaError, lambda: self.produce(way, topic, good=False, wait=5))

    def name(self, error):
        return type(error).__name__


class AIO:
    """aiokafka."""

    def __init__(self):
        import aiokafka
        import aiokafka.abc
        import aiokafka.errors

        class Token(aiokafka.abc.AbstractTokenProvider):
            def __init__(self, text):
                self.text = text

            async def token(self):
                return self.text

        self.aio, self.Token = aiokafka, Token

    def conf(self, way, good=True):
        context = ssl.create_default_context(cafile=c["ca"])
        if way == "SSL":
            context.load_cert_chain(c["pem"] if good else c["otherPem"])
            return dict(bootstrap_servers=c["ssl"], security_protocol="SSL", ssl_context=context)
        out = dict(bootstrap_servers=c["sasl"], security_protocol="SASL_SSL", ssl_context=context, sasl_mechanism=way)
        if way == "OAUTHBEARER":
            return dict(out, sasl_oauth_token_provider=self.Token(c["token"] if good else c["otherToken"]))
        return dict(out, sasl_plain_username=c["user"], sasl_plain_password=c["password"] if good else c["otherPassword"])

    def run(self, work):
        return asyncio.run(asyncio.wait_for(work, WAIT))

    def produce(self, way, to, good=True):
        async def work():
            async with self.aio.AIOKafkaProducer(**self.conf(way, good)) as p:
                await p.send_and_wait(to, way.encode())
        self.run(work())

    def transact(self, way, id):
        async def work():
            async with self.aio.AIOKafkaProducer(transactional_id=id, **self.conf(way)) as p:
                async with p.transaction():
                    await p.send_and_wait(topic, way.encode())
        self.run(work())

    def consume(self, way, group):
        async def work():
            async with self.aio.AIOKafkaConsumer(topic, group_id=group, auto_offset_reset="earliest", **self.conf(way)) as consumer:
                async for m in consumer:
                    if m.value == way.encode():
                        return
        self.run(work())

    def login(self, way):
        logged("aiokafka", self.aio.errors.KafkaConnectionError, lambda: self.produce(way, topic, good=False))

    def name(self, error):
        return type(error).__name__


client = {"librdkafka": Confluent, "kafka-python": Python, "aiokafka": AIO}[c["client"]]()


def step(way, what, work):
    try:
        work()
        say(way, what, "ok")
    except Exception as e:  # whatever the client calls it
        print(f"{way} {what}: {e!r}", file=sys.stderr)
        say(way, what, client.name(e))


for way in c["ways"]:
    step(way, "produce", lambda: client.produce(way, topic))
    step(way, "consume", lambda: client.consume(way, f"{group}-{way}"))
    step(way, "transact", lambda: client.transact(way, f"{txn}-{way}"))
    step(way, "login", lambda: client.login(way))
    step(way, "topic", lambda: client.produce(way, "secret"))
    step(way, "group", lambda: client.consume(way, "secret"))
    step(way, "txn", lambda: client.transact(way, "secret"))
