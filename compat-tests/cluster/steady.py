"""A librdkafka producer and a member of a group, with their default settings: steady.py ADDRS TOPIC GROUP.

Tells as JSON lines, in Kafka's verifiable clients' words, what happens to them; ends with its standard input."""

import json
import sys
import threading
import time

import confluent_kafka as ck

addrs, topic, group = sys.argv[1:]
ending = threading.Event()
speaking = threading.Lock()


def say(name, **more):
    with speaking:
        print(json.dumps({"name": name, "timestamp": int(time.time() * 1000), **more}), flush=True)


def failed(err):
    # What a client logs about a connection that broke is not an error of the application's.
    if not err.retriable() and err.code() not in (ck.KafkaError._TRANSPORT, ck.KafkaError._ALL_BROKERS_DOWN):
        say("client_error", message=str(err))


def delivered(err, _):
    if err:
        say("producer_send_error", message=str(err))
    else:
        say("producer_send_success")


def produce():
    producer = ck.Producer({"bootstrap.servers": addrs, "acks": "all", "error_cb": failed})
    n = 0
    while not ending.is_set():
        producer.produce(topic, value=str(n), on_delivery=delivered)
        n += 1
        producer.poll(0.005)
    if producer.flush(30):
        say("producer_send_error", message="not delivered at the end")


def consume():
    consumer = ck.Consumer({"bootstrap.servers": addrs, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False, "error_cb": failed})
    consumer.subscribe(
        [topic],
        on_assign=lambda _, parts: say("partitions_assigned", partitions=[{"topic": p.topic, "partition": p.partition} for p in parts]),
        on_revoke=lambda *_: say("partitions_revoked") if not ending.is_set() else None,
        on_lost=lambda *_: say("partitions_revoked"),
    )
    while not ending.is_set():
        records = consumer.consume(500, 0.05)
        bad = [r.error() for r in records if r.error()]
        for err in bad:
            failed(err)
        if not records or bad:
            continue
        say("records_consumed", count=len(records))
        try:
            done = consumer.commit(asynchronous=False)
            say("offsets_committed", success=True, offsets=[{"topic": p.topic, "partition": p.partition, "offset": p.offset} for p in done])
        except ck.KafkaException as e:
            say("offsets_committed", success=False, error=str(e))
    consumer.close()


threads = [threading.Thread(target=f) for f in (produce, consume)]
for t in threads:
    t.start()
sys.stdin.read()
ending.set()
for t in threads:
    t.join()
