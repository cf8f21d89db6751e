"""The services that routes use: each is an attribute of ``request.app.state`` with the same name."""

from __future__ import annotations

from millstream.serve.data import ServedData
from millstream.serve.ksql.engine import SqlEngine
from millstream.serve.ksql.streams import Places
from millstream.serve.live.hub import Hub
from millstream.serve.observe.observer import Observer
from millstream.serve.operations.decoding import Decoder
from millstream.serve.stores.queries import StoreQueries


class Services:
    """The services of a server.

    Args:
        data: The data that it serves. The services close it.

    Attributes:
        data: The data.
        decoder: Decodes records.
        stores: Answers queries of stores.
        hub: Sends events to open streams.
        observer: Samples metrics, and evaluates alerts.
        sql: Executes SQL.
        places: Limits the queries that are open.
    """

    def __init__(self, data: ServedData) -> None:
        self.data = data
        self.decoder = Decoder(data)
        self.stores = StoreQueries(data, self.decoder)
        self.hub = Hub(data, self.decoder)
        self.observer = Observer(data)
        self.sql = SqlEngine(data)
        self.places = Places(data.options.most_streams)
        self.observer.alerts.listeners.append(lambda event: self.hub.publish("alerts", event))

    def begin(self) -> None:
        """Starts what works without a request."""
        self.observer.start()
        self.sql.begin()

    async def end_streams(self) -> None:
        """Ends all open streams of answers."""
        await self.hub.close()
        await self.sql.close()

    def close(self) -> None:
        """Ends the services, and closes the data."""
        self.observer.stop()
        self.decoder.close()
        self.data.close()
