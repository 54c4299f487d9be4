# Copyright 2026 The minik8s Authors
# SPDX-License-Identifier: Apache-2.0
"""The server in pods of Python functions: it is given code once (POST /.minik8s/load), and then answers requests with it."""
import binascii
import json
import os
import signal
import socket
import sys
import threading
import time

MAX_HEAD = 64 << 10
MAX_BODY = 10 << 20
TOKEN = os.environ.pop("MINIK8S_TOKEN", "")
DIR = "/tmp/function"


class Refused(Exception):
    """A request that is answered with a status, after which the connection is closed."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status, self.message = status, message


class Function:
    """The code, once it is there."""

    def __init__(self):
        self.lock = threading.Lock()
        self.main, self.arity, self.revision, self.error, self.trace = None, 1, "", "", ""
        self.timeout = 0
        self.running = {}  # thread: begin of its request

    def load(self, code):
        with self.lock:
            if self.revision:
                if self.revision != code["revision"]:
                    raise Refused(409, "this pod has the code of revision " + self.revision)
                if self.hung(-0.1):
                    raise Refused(503, "a request has gone on for longer than timeoutSeconds")
            else:
                self.revision, self.timeout = code["revision"], code.get("timeoutSeconds", 0)
                try:
                    self.read(code)
                except BaseException as e:  # also SystemExit: code may do anything while it loads
                    import traceback

                    self.error = traceback.format_exception_only(type(e), e)[-1].strip()
                    self.trace = traceback.format_exc()
                    if isinstance(e, SyntaxError) and e.filename:
                        self.error += " (%s, line %s)" % (os.path.basename(e.filename), e.lineno)
                    sys.stderr.write(self.trace)
            return self.error

    def read(self, code):
        os.environ.update(code.get("env") or {})
        for path, data in code["files"].items():
            at = os.path.join(DIR, path)
            os.makedirs(os.path.dirname(at), exist_ok=True)
            with open(at, "wb") as f:
                f.write(binascii.a2b_base64(data))
        os.chdir(DIR)
        sys.path.insert(0, DIR)
        sys.dont_write_bytecode = True
        import importlib

        module, _, name = code["handler"].rpartition(".")
        found = getattr(importlib.import_module(module), name, None)
        if found is None:
            raise AttributeError("module %s has no function %s" % (module, name))
        if not callable(found):
            raise TypeError("%s of module %s is no function" % (name, module))
        try:
            self.arity = found.__code__.co_argcount
        except AttributeError:
            self.arity = 1
        self.main = found

    def health(self):
        if not self.revision:
            return 503, {"state": "empty"}
        if self.error:
            return 500, {"state": "failed", "error": self.error}
        if self.hung(-0.1):
            return 503, {"state": "hung"}
        return 200, {"state": "loaded", "revision": self.revision}

    def hung(self, beyond):
        """The threads whose requests have gone on for longer than timeoutSeconds, and some beyond."""
        if not self.timeout:
            return []
        limit = time.monotonic() - self.timeout - beyond
        return [t for t, begin in list(self.running.items()) if begin < limit]


function = Function()


def params(method, target, headers, body):
    """What the handler is called with: the body's JSON, else the query; an event, if it is one by its headers."""
    if body:
        try:
            value = json.loads(body)
        except ValueError as e:
            raise Refused(400, "the body is no JSON: %s" % e) from None
    else:
        value = {}
        if "?" in target:
            from urllib.parse import parse_qsl

            value = dict(parse_qsl(target.split("?", 1)[1], keep_blank_values=True))
    if "ce-specversion" in headers:
        event = {k[3:]: v for k, v in headers.items() if k.startswith("ce-")}
        if body:
            event["data"] = value
        return event
    return value


def call(method, target, headers, body):
    """The answer of the handler: status, type and body."""
    value = params(method, target, headers, body)
    me = threading.get_ident()
    function.running[me] = time.monotonic()
    try:
        if function.arity > 1:
            result = function.main(value, {"method": method, "path": target, "headers": headers})
        else:
            result = function.main(value)
        if isinstance(result, (bytes, bytearray)):
            return 200, "application/octet-stream", bytes(result)
        return 200, "application/json", json.dumps(result).encode()
    except BaseException as e:  # also SystemExit: a handler that calls exit() ends its request only
        import traceback

        trace = traceback.format_exc()
        sys.stderr.write(trace)
        last = traceback.format_exception_only(type(e), e)[-1].strip()
        return 500, "application/json", json.dumps({"error": last}).encode()
    finally:
        function.running.pop(me, None)


def answer(method, target, headers, body):
    path = target.split("?", 1)[0]
    if path == "/healthz":
        status, state = function.health()
        return status, "application/json", json.dumps(state).encode()
    if path == "/.minik8s/load":
        if not TOKEN or headers.get("authorization") != "Bearer " + TOKEN:
            raise Refused(401, "only the controller of functions brings code")
        error = function.load(json.loads(body))
        return (422 if error else 200), "application/json", json.dumps({"error": error}).encode()
    if function.main is None:
        raise Refused(503, function.error or "this pod has no code yet")
    return call(method, target, headers, body)


REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 409: "Conflict", 413: "Payload Too Large", 422: "Unprocessable Content",
           431: "Request Header Fields Too Large", 500: "Internal Server Error", 503: "Service Unavailable"}


class Connection:
    def __init__(self, sock):
        self.sock, self.buffer = sock, b""

    def fill(self):
        data = self.sock.recv(65536)
        if not data:
            raise EOFError
        self.buffer += data

    def line(self, limit=MAX_HEAD):
        while b"\r\n" not in self.buffer:
            if len(self.buffer) > limit:
                raise Refused(400, "a line is too long")
            self.fill()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def exactly(self, n):
        if len(self.buffer) >= n:
            data, self.buffer = self.buffer[:n], self.buffer[n:]
            return data
        parts, have = [self.buffer], len(self.buffer)
        self.buffer = b""
        while have < n:
            data = self.sock.recv(min(n - have, 1 << 20))
            if not data:
                raise EOFError
            parts.append(data)
            have += len(data)
        return b"".join(parts)

    def head(self):
        while b"\r\n\r\n" not in self.buffer:
            if len(self.buffer) > MAX_HEAD:
                raise Refused(431, "the headers are too long")
            self.fill()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        try:
            method, target, version = lines[0].split(" ")
        except ValueError:
            raise Refused(400, "this is no HTTP") from None
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        return method, target, version, headers

    def body(self, headers):
        chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        length = "0" if chunked else headers.get("content-length", "0")
        if not length.isdigit():
            raise Refused(400, "Content-Length is no number")
        if int(length) > MAX_BODY:
            raise Refused(413, "the body has more than 10 MiB")
        if headers.get("expect", "").lower() == "100-continue":  # the client sends nothing until it may
            self.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        return self.chunks() if chunked else self.exactly(int(length))

    def chunks(self):
        parts, total = [], 0
        while True:
            try:
                size = int(self.line().split(b";")[0], 16)
            except ValueError:
                raise Refused(400, "the size of a chunk is no number") from None
            total += size
            if total > MAX_BODY:
                raise Refused(413, "the body has more than 10 MiB")
            if size == 0:
                while self.line():
                    pass
                return b"".join(parts)
            parts.append(self.exactly(size))
            self.exactly(2)

    def linger(self):
        """Reads on for a second what the client may still send: closed on that, the connection would be reset, and the answer lost."""
        self.sock.shutdown(socket.SHUT_WR)
        end = time.monotonic() + 1
        while (left := end - time.monotonic()) > 0:
            self.sock.settimeout(left)
            if not self.sock.recv(65536):
                return

    def serve(self):
        try:
            while True:
                method, target, version, headers = self.head()
                keep = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
                try:
                    status, kind, out = answer(method, target, headers, self.body(headers))
                except Refused as e:
                    keep = keep and e.status not in (400, 413, 431)
                    status, kind, out = e.status, "application/json", json.dumps({"error": e.message}).encode()
                end = "" if keep else "Connection: close\r\n"
                head = "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n%s\r\n" % (
                    status, REASONS.get(status, ""), kind, len(out), end)
                self.sock.sendall(head.encode("latin-1") + (b"" if method == "HEAD" else out))
                if not keep:
                    self.linger()
                    return
        except (EOFError, OSError, Refused):
            pass
        finally:
            self.sock.close()


def accept(listener):
    while True:
        sock, _ = listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=Connection(sock).serve, daemon=True).start()


def watch():
    """Ends the process once nothing but hung requests is left of it: threads cannot be stopped."""
    while True:
        time.sleep(1)
        hung = function.hung(1)
        if hung and len(hung) >= len(function.running):
            sys.stderr.write("%d requests have gone on for longer than timeoutSeconds: this process ends\n" % len(hung))
            os._exit(70)


def main():
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    listener = socket.create_server(("", int(os.environ.get("PORT", "8080"))), backlog=1024, reuse_port=False)
    threading.Thread(target=accept, args=(listener,), daemon=True).start()
    threading.Thread(target=watch, daemon=True).start()
    stop.wait()
    quiet = 0
    while quiet < 5:  # what is on its way when this pod goes is still answered
        time.sleep(0.05)
        quiet = 0 if function.running else quiet + 1
    os._exit(0)


main()
