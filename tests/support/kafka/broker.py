"""A real Kafka broker, its own controller (KRaft), in a temporary folder, on free ports."""

import itertools
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.eventually import eventually
from tests.support.kafka import jars
from tests.support.ports import free_port

_CLUSTER = "b3RlbC1hZ2VudGV2YWwtMQ"
"""16 bytes in base64, as Kafka wants them."""

_JVM = (
    # A broker of a test is small, and lives for seconds: it need not be fast in the long run.
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)


@dataclass
class Broker:
    """A broker that may be killed, stopped and started again, on the same data and port. `host` is the address of this
    machine where it is called."""

    folder: Path
    host: str = "127.0.0.1"
    port: int = field(default_factory=free_port)
    controller_port: int = field(default_factory=free_port)
    _names: "itertools.count[int]" = field(default_factory=itertools.count)
    _process: "subprocess.Popen[bytes] | None" = None

    @property
    def address(self) -> str:
        """What clients call `bootstrap.servers`."""
        return f"{self.host}:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def make(self) -> None:
        """Write its settings, and an empty log."""
        (self.folder / "server.properties").write_text(self._settings())
        tool = ["kafka.tools.StorageTool", "format", "--config", str(self.folder / "server.properties")]
        command = [*self._java(), *tool, "--cluster-id", _CLUSTER]
        subprocess.run(command, check=True, capture_output=True, timeout=120)

    def start(self) -> None:
        """Return once it answers."""
        with self.log.open("ab") as log:
            command = [*self._java(), "kafka.Kafka", str(self.folder / "server.properties")]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        eventually(self._answers, within=60)

    def stop(self) -> None:
        """Let it write what it has, and go."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash does."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def new_topic(self, stem: str = "topic", partitions: int = 1) -> str:
        """Make a topic that no other test has; return its name."""
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - the suite runs without it, too
        from confluent_kafka.cimpl import NewTopic  # noqa: PLC0415

        name = f"{stem}-{next(self._names)}"
        client = AdminClient({"bootstrap.servers": self.address})
        topics = [NewTopic(name, num_partitions=partitions, replication_factor=1)]
        client.create_topics(topics, operation_timeout=30)[name].result(30)
        return name

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    def _answers(self) -> bool:
        from confluent_kafka import KafkaException  # noqa: PLC0415
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415

        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()
        # It says on its own that nobody listens yet.
        client = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        try:
            return bool(client.list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    def _java(self) -> list[str]:
        return [jars.java(), *_JVM, "-cp", ":".join(map(str, jars.jars()))]

    def _settings(self) -> str:
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{self.controller_port}",
            "log.dirs": self.folder / "data",
            "auto.create.topics.enable": "false",
            # A single broker has no others to copy to.
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            # Few files, and groups that start at once: tests make many of both.
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.num.partitions": 4,
            "group.initial.rebalance.delay.ms": 0,
            "group.min.session.timeout.ms": 1000,
            # A broker that was killed is believed to live for so long: the next one waits for that.
            "broker.session.timeout.ms": 2000,
            "broker.heartbeat.interval.ms": 500,
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())


@contextmanager
def broker(host: str = "127.0.0.1") -> Iterator[Broker]:
    """A new broker; it is gone afterwards, with all its data."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="agenteval-kafka-", dir=memory if memory.is_dir() else None) as name:
        made = Broker(Path(name), host)
        made.make()
        try:
            made.start()
            yield made
        finally:
            made.kill()
