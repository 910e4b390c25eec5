"""Drives a Python Kafka client with operations as JSON lines: agent.py confluent|confluent-consumer|kafka-python|aiokafka ADDR."""

import base64
import json
import queue
import sys
import threading
import time


def decode(value):
    return None if value is None else base64.b64decode(value)


def encode(value):
    return None if value is None else base64.b64encode(value).decode()


def record(partition, offset, time_ms, key, value, headers):
    return {
        "partition": partition,
        "offset": offset,
        "timeMs": time_ms,
        "key": encode(key),
        "value": encode(value),
        "headers": [[k, v.decode()] for k, v in headers or []] or None,
    }


def headers_of(r):
    return [(k, v.encode()) for k, v in r.get("headers") or []]


class Confluent:
    """confluent-kafka: librdkafka."""

    membership = {"session.timeout.ms": 10000}

    def __init__(self, addr):
        import confluent_kafka
        import confluent_kafka.admin

        self.ck = confluent_kafka
        self.addr = addr
        self.members = {}

    def create(self, op):
        admin = self.ck.admin.AdminClient({"bootstrap.servers": self.addr})
        new = self.ck.admin.NewTopic(op["topic"], num_partitions=op["partitions"], replication_factor=1)
        for future in admin.create_topics([new]).values():
            future.result(30)

    def produce(self, op):
        errors = []
        producer = self.ck.Producer({
            "bootstrap.servers": self.addr,
            "compression.type": op["codec"],
            "enable.idempotence": op.get("idempotent", False),
            "message.max.bytes": 1000000,
            "linger.ms": 5,
        })
        self.send(producer, op, errors)
        if producer.flush(30) or errors:
            raise RuntimeError(f"not delivered: {errors[:3]}")

    def send(self, producer, op, errors):
        for r in op["records"]:
            producer.produce(
                op["topic"], partition=r["partition"], timestamp=r["timeMs"], key=decode(r["key"]), value=decode(r["value"]),
                headers=headers_of(r), on_delivery=lambda err, _: errors.append(err) if err else None)

    def transact(self, op):
        errors = []
        producer = self.ck.Producer({"bootstrap.servers": self.addr, "transactional.id": op["transactionalId"], "linger.ms": 5})
        producer.init_transactions(30)
        producer.begin_transaction()
        self.send(producer, op, errors)
        consumer = self.consumer(op["group"])
        offset = self.ck.TopicPartition(op["topic"], 0, op["offset"])
        producer.send_offsets_to_transaction([offset], consumer.consumer_group_metadata(), 30)
        consumer.close()
        if op.get("commit"):
            producer.commit_transaction(30)
        else:
            producer.flush(30)  # so that there is something to abort
            producer.abort_transaction(30)
        if errors:
            raise RuntimeError(f"not delivered: {errors[:3]}")

    def consumer(self, group, committed=False):
        return self.ck.Consumer({
            "bootstrap.servers": self.addr, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest",
            "isolation.level": "read_committed" if committed else "read_uncommitted", **self.membership,
        })

    def convert(self, m):
        return record(m.partition(), m.offset(), m.timestamp()[1], m.key(), m.value(), m.headers())

    def consume(self, op):
        consumer = self.consumer("unused", op.get("committed", False))
        consumer.assign([self.ck.TopicPartition(op["topic"], op["partition"], op["offset"])])
        out = []
        end = time.time() + 30
        while len(out) < op["count"] and time.time() < end:
            m = consumer.poll(0.2)
            if m is not None:
                if m.error():
                    raise RuntimeError(str(m.error()))
                out.append(self.convert(m))
        consumer.close()
        return {"records": out}

    def join(self, op):
        consumer = self.consumer(op["group"])
        consumer.subscribe([op["topic"]])
        self.members[op["member"]] = consumer

    def poll(self, op):
        consumer = self.members[op["member"]]
        out = []
        end = time.time() + op["waitMs"] / 1000
        while time.time() < end:
            m = consumer.poll(0.05)
            if m is not None and not m.error():
                out.append(self.convert(m))
        return {"records": out, "assigned": [p.partition for p in consumer.assignment()]}

    def commit(self, op):
        self.members[op["member"]].commit(asynchronous=False)

    def leave(self, op):
        self.members.pop(op["member"]).close()

    def offsetForTime(self, op):
        consumer = self.consumer("unused")
        found = consumer.offsets_for_times([self.ck.TopicPartition(op["topic"], op["partition"], op["timeMs"])], timeout=30)
        consumer.close()
        return {"offset": found[0].offset}


class ConfluentConsumer(Confluent):
    """confluent-kafka in groups of KIP-848, whose session timeout is the broker's."""

    membership = {"group.protocol": "consumer"}


class KafkaPython:
    """kafka-python."""

    def __init__(self, addr):
        import kafka
        import kafka.admin

        self.kafka = kafka
        self.addr = addr
        self.members = {}

    def create(self, op):
        admin = self.kafka.admin.KafkaAdminClient(bootstrap_servers=self.addr)
        admin.create_topics([self.kafka.admin.NewTopic(op["topic"], op["partitions"], 1)])
        admin.close()

    def produce(self, op):
        options = {"enable_idempotence": True} if op.get("idempotent") else {}
        codec = None if op["codec"] == "none" else op["codec"]
        producer = self.kafka.KafkaProducer(bootstrap_servers=self.addr, compression_type=codec, acks="all", linger_ms=5, **options)
        sent = [
            producer.send(op["topic"], partition=r["partition"], timestamp_ms=r["timeMs"], key=decode(r["key"]), value=decode(r["value"]),
                          headers=headers_of(r))
            for r in op["records"]
        ]
        for future in sent:
            future.get(30)
        producer.close()

    def consumer(self, group, *topics):
        return self.kafka.KafkaConsumer(
            *topics, bootstrap_servers=self.addr, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest",
            session_timeout_ms=10000)

    def convert(self, m):
        return record(m.partition, m.offset, m.timestamp, m.key, m.value, m.headers)

    def consume(self, op):
        consumer = self.consumer(None)
        part = self.kafka.TopicPartition(op["topic"], op["partition"])
        consumer.assign([part])
        consumer.seek(part, op["offset"])
        out = []
        end = time.time() + 30
        while len(out) < op["count"] and time.time() < end:
            for messages in consumer.poll(200, max_records=op["count"] - len(out)).values():
                out += [self.convert(m) for m in messages]
        consumer.close()
        return {"records": out}

    def join(self, op):
        self.members[op["member"]] = ThreadMember(self.consumer(op["group"], op["topic"]))

    def poll(self, op):
        messages, assigned = self.members[op["member"]].call("poll", op["waitMs"])
        return {"records": [self.convert(m) for m in messages], "assigned": assigned}

    def commit(self, op):
        self.members[op["member"]].call("commit")

    def leave(self, op):
        self.members.pop(op["member"]).call("close")

    def offsetForTime(self, op):
        consumer = self.consumer(None)
        part = self.kafka.TopicPartition(op["topic"], op["partition"])
        found = consumer.offsets_for_times({part: op["timeMs"]})[part]
        consumer.close()
        return {"offset": found.offset}


class ThreadMember:
    """A group member on a thread of its own that always polls: kafka-python blocks in a poll until all have rejoined."""

    def __init__(self, consumer):
        self.consumer = consumer
        self.calls = queue.Queue()
        self.answers = queue.Queue()
        self.got = []
        threading.Thread(target=self.run, daemon=True).start()

    def call(self, name, *args):
        self.calls.put((name, args))
        answer = self.answers.get(timeout=60)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def run(self):
        while True:
            for messages in self.consumer.poll(50).values():
                self.got += messages
            if not self.calls.empty():
                name, args = self.calls.get()
                try:
                    self.answers.put(getattr(self, name)(*args))
                except Exception as e:
                    self.answers.put(e)
                if name == "close":
                    return

    def poll(self, wait_ms):
        for messages in self.consumer.poll(wait_ms).values():
            self.got += messages
        got, self.got = self.got, []
        return got, [p.partition for p in self.consumer.assignment()]

    def commit(self):
        self.consumer.commit()

    def close(self):
        self.consumer.close()


class AIOKafka:
    """aiokafka; its members go on in the loop only while an operation runs, so each waits inside the loop."""

    def __init__(self, addr):
        import asyncio

        import aiokafka
        import aiokafka.admin

        self.asyncio = asyncio
        self.aio = aiokafka
        self.addr = addr
        self.members = {}
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def run(self, coroutine):
        return self.asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)

    def create(self, op):
        async def go():
            admin = self.aio.admin.AIOKafkaAdminClient(bootstrap_servers=self.addr)
            await admin.start()
            await admin.create_topics([self.aio.admin.NewTopic(op["topic"], op["partitions"], 1)])
            await admin.close()

        self.run(go())

    def produce(self, op):
        async def go():
            codec = None if op["codec"] == "none" else op["codec"]
            producer = self.aio.AIOKafkaProducer(
                bootstrap_servers=self.addr, compression_type=codec, acks="all", enable_idempotence=op.get("idempotent", False))
            await producer.start()
            await self.send(producer, op)
            await producer.stop()

        self.run(go())

    async def send(self, producer, op):
        sent = [
            await producer.send(op["topic"], partition=r["partition"], timestamp_ms=r["timeMs"], key=decode(r["key"]),
                                value=decode(r["value"]), headers=headers_of(r))
            for r in op["records"]
        ]
        for future in sent:
            await future

    def transact(self, op):
        async def go():
            producer = self.aio.AIOKafkaProducer(bootstrap_servers=self.addr, transactional_id=op["transactionalId"])
            await producer.start()
            await producer.begin_transaction()
            await self.send(producer, op)
            part = self.aio.TopicPartition(op["topic"], 0)
            await producer.send_offsets_to_transaction({part: op["offset"]}, op["group"])
            if op.get("commit"):
                await producer.commit_transaction()
            else:
                await producer.abort_transaction()
            await producer.stop()

        self.run(go())

    def consumer(self, group, *topics, committed=False):
        return self.aio.AIOKafkaConsumer(
            *topics, bootstrap_servers=self.addr, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest",
            session_timeout_ms=10000, metadata_max_age_ms=5000, isolation_level="read_committed" if committed else "read_uncommitted")

    def convert(self, m):
        return record(m.partition, m.offset, m.timestamp, m.key, m.value, m.headers)

    def consume(self, op):
        async def go():
            consumer = self.consumer(None, committed=op.get("committed", False))
            await consumer.start()
            part = self.aio.TopicPartition(op["topic"], op["partition"])
            consumer.assign([part])
            consumer.seek(part, op["offset"])
            out = []
            end = time.time() + 30
            while len(out) < op["count"] and time.time() < end:
                found = await consumer.getmany(timeout_ms=200, max_records=op["count"] - len(out))
                for messages in found.values():
                    out += [self.convert(m) for m in messages]
            await consumer.stop()
            return {"records": out}

        return self.run(go())

    def join(self, op):
        async def go():
            consumer = self.consumer(op["group"], op["topic"])
            self.members[op["member"]] = consumer
            await consumer.start()

        self.asyncio.run_coroutine_threadsafe(go(), self.loop)

    def poll(self, op):
        async def go():
            consumer = self.members.get(op["member"])
            if consumer is None or not consumer.assignment():
                await self.asyncio.sleep(op["waitMs"] / 1000)
                return {"records": [], "assigned": []}
            found = await consumer.getmany(timeout_ms=op["waitMs"])
            out = [self.convert(m) for messages in found.values() for m in messages]
            return {"records": out, "assigned": [p.partition for p in consumer.assignment()]}

        return self.run(go())

    def commit(self, op):
        self.run(self.members[op["member"]].commit())

    def leave(self, op):
        self.run(self.members.pop(op["member"]).stop())

    def offsetForTime(self, op):
        async def go():
            consumer = self.consumer(None)
            await consumer.start()
            part = self.aio.TopicPartition(op["topic"], op["partition"])
            found = (await consumer.offsets_for_times({part: op["timeMs"]}))[part]
            await consumer.stop()
            return {"offset": found.offset}

        return self.run(go())


def main():
    client = {"confluent": Confluent, "confluent-consumer": ConfluentConsumer, "kafka-python": KafkaPython, "aiokafka": AIOKafka}[sys.argv[1]](sys.argv[2])
    out, sys.stdout = sys.stdout, sys.stderr  # a library that prints must not disturb the protocol
    for line in sys.stdin:
        op = json.loads(line)
        try:
            reply = getattr(client, op["op"])(op) or {}
        except Exception as e:  # every failure is the driver's to judge
            reply = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(reply), file=out, flush=True)


main()
