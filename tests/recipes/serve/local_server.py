"""The local server in threads of this process."""

import contextlib
import http.client
import json
import threading
import time

from recipes.serve.app import listen, make_server
from recipes.serve.models import Model


@contextlib.contextmanager
def local_server(folders, keep=1, **options):
    """Serves models, a dictionary from name to folder, on any free port; yields a `Local`."""
    models = {name: Model(name, folder, keep) for name, folder in folders.items()}
    for model in models.values():
        model.poll()
    server = make_server(models, **options)
    with listen("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, args=[[listener]])
        thread.start()
        try:
            yield Local(models, listener.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join()


class Local:
    """Server on this machine. `models` are those in its memory."""

    def __init__(self, models, port):
        self.models = models
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def ask(self, path, body=None, method=None, headers=None):
        """Returns the status, the answer and its headers; a body makes a POST."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method or ("GET" if body is None else "POST"), path, data, headers or {})
        with contextlib.closing(connection), connection.getresponse() as response:
            answer = response.read()
            is_json = "json" in response.headers["Content-Type"]
            return response.status, json.loads(answer) if is_json else answer.decode(), response.headers

    def predict(self, body, model="numbers"):
        status, answer, _ = self.ask(f"/v1/models/{model}:predict", body)
        assert status == 200, answer
        return answer


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
