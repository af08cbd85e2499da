"""A way to an iSCSI target that breaks: it relays TCP connections, cuts them off and damages octets of them, as a test says."""
import random
import socket
import struct
import threading
import time

CONNECT_SECONDS = 5              # policy
LOGIN_REQUEST = 0x03


class Proxy:
    """Listens on a port that is free until the end of a with block, and is as slow as it is told. `sessions`: TSIH of each connection's first
    login, in order."""

    def __init__(self, port, seed=1, bytes_a_second=0, host="127.0.0.1"):
        self.host, self.port, self.random, self.bytes_a_second = host, port, random.Random(seed), bytes_a_second
        self.pairs, self.sessions, self.lock, self.damages, self.ends = [], [], threading.Lock(), 0, False

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:{}".format(self.listener.getsockname()[1])
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends = True
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()
        while self.cut():
            pass

    def accept(self):
        while not self.ends:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection((self.host, self.port), CONNECT_SECONDS)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            pair = (near, far)
            with self.lock:
                self.pairs.append(pair)
            for source, sink, first in ((near, far, True), (far, near, False)):
                threading.Thread(target=self.relay, args=(source, sink, pair, first), daemon=True).start()

    def relay(self, source, sink, pair, is_first):
        try:
            while octets := source.recv(65536):
                if is_first and len(octets) >= 48:
                    if octets[0] & 0x3F == LOGIN_REQUEST:
                        self.sessions.append(struct.unpack_from(">H", octets, 14)[0])
                    is_first = False
                elif self.damages and not is_first and len(octets) > 4096:
                    octets = self.damaged(octets)
                sink.sendall(octets)
                if self.bytes_a_second:
                    time.sleep(len(octets) / self.bytes_a_second)
        except OSError:
            pass
        self.end(pair)

    def damaged(self, octets):
        with self.lock:
            if not self.damages:
                return octets
            self.damages -= 1
            place = self.random.randrange(len(octets))
        return octets[:place] + bytes([octets[place] ^ 1]) + octets[place + 1:]

    def end(self, pair):
        with self.lock:
            if pair in self.pairs:
                self.pairs.remove(pair)
        for one in pair:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            one.close()

    def cut(self):
        """Cuts one connection off; false if there is none."""
        with self.lock:
            pair = self.random.choice(self.pairs) if self.pairs else None
        if pair:
            for one in pair:  # with a reset, so that what was under way is lost
                try:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                except OSError:
                    pass
            self.end(pair)
        return pair is not None

    def connections(self):
        with self.lock:
            return len(self.pairs)

    def wait_for(self, connections, seconds):
        deadline = time.monotonic() + seconds
        while self.connections() < connections:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.connections()} connections, and not {connections}")
            time.sleep(0.02)
