"""Queries of the Bifrost client: frames, models, streams, and what runs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.sdk import frames
from tests.sdk.peer import Answer, Peer, problem
from tests.sdk.test_bifrost import BATCH, TRACE, Ticket
from wyrd import Bifrost, Code, WyrdClient, WyrdError
from wyrd.wire.ids import uuid7


class TestQuerying:
    def test_a_result_is_arrow_rows_and_models(self, peer: Peer, client: WyrdClient) -> None:
        peer.routes["POST", "/v1/query"] = lambda _: frames.answered(BATCH, BATCH)
        bifrost = Bifrost(client)
        result = bifrost.sql("SELECT $1", [1, 2.5, "x", True, None])
        (sent,) = peer.requests("POST", "/v1/query")
        assert sent.json == {"sql": "SELECT $1", "params": [1, 2.5, "x", True, None]}
        assert sent.headers["accept"] == frames.CONTENT_TYPE
        assert (result.num_rows, len(result), len(result.batches)) == (4, 4, 2)
        assert result.to_arrow() == pa.Table.from_batches([BATCH, BATCH])
        assert pa.ipc.open_stream(result.to_bytes()).read_all() == result.to_arrow()
        assert result.terminal.outcome == "success"
        expected = [Ticket(n=1, word="a"), Ticket(n=2)] * 2
        assert bifrost.sql("SELECT 1", Ticket) == expected
        assert bifrost.sql("SELECT 1", [1], model=Ticket) == expected
        assert bifrost.query("SELECT 1", Ticket) == expected

    def test_no_row_still_has_columns(self, peer: Peer, client: WyrdClient) -> None:
        peer.routes["POST", "/v1/query"] = lambda _: frames.answered(of=BATCH.schema)
        result = Bifrost(client).sql("SELECT 1")
        assert (result.num_rows, result.schema.names, result.batches) == (0, ["n", "word"], [])

    def test_a_row_that_is_no_such_model_fails_the_whole(self, peer: Peer, client: WyrdClient) -> None:
        peer.routes["POST", "/v1/query"] = lambda _: frames.answered(pa.record_batch({"n": [1, None]}))
        with pytest.raises(WyrdError) as refused:
            Bifrost(client).sql("SELECT 1", Ticket)
        assert refused.value.member is Code.CLIENT_422_ROW_DESERIALIZATION
        assert (refused.value.details["row"], refused.value.details["field"]) == (1, "n")

    def test_json_columns_are_values_in_rows(self, peer: Peer, client: WyrdClient) -> None:
        variant = pa.field("data", pa.string(), metadata={"wyrd.type": "variant"})
        batch = pa.record_batch([pa.array(['{"a":[1,2.5]}', None])], schema=pa.schema([variant]))
        peer.routes["POST", "/v1/query"] = lambda _: frames.answered(batch)
        assert Bifrost(client).sql("SELECT 1").to_pylist() == [{"data": {"a": [1, 2.5]}}, {"data": None}]

    def test_an_answer_that_breaks_off_is_no_answer(self, peer: Peer, client: WyrdClient) -> None:
        whole = frames.answered(BATCH).raw or b""
        peer.routes["POST", "/v1/query"] = lambda _: Answer(raw=whole[:-3])
        bifrost = Bifrost(client)
        with pytest.raises(WyrdError) as broken:
            bifrost.sql("SELECT 1")
        assert broken.value.member is Code.VALA_502_QUERY_STREAM_INCOMPLETE
        with pytest.raises(WyrdError) as streamed:
            list(bifrost.stream("SELECT 1"))
        assert streamed.value.member is Code.VALA_502_QUERY_STREAM_INCOMPLETE

    def test_a_stream_gives_batches_then_how_it_ended(self, peer: Peer, client: WyrdClient) -> None:
        answer = frames.answered(BATCH)
        answer.headers["wyrd-request-id"] = request_id = uuid7()
        peer.routes["POST", "/v1/query"] = lambda _: answer
        stream = Bifrost(client).stream("SELECT 1", deadline_ms=5000)
        assert (stream.request_id, stream.terminal) == (request_id, None)
        assert list(stream) == [BATCH]
        assert stream.terminal is not None
        assert stream.terminal.row_count == 2
        assert peer.requests("POST", "/v1/query")[0].json["deadline_ms"] == 5000

    def test_a_stream_may_be_left(self, peer: Peer, client: WyrdClient) -> None:
        peer.routes["POST", "/v1/query"] = lambda _: frames.answered(BATCH, BATCH)
        stream = Bifrost(client).stream("SELECT 1")
        next(stream)
        stream.close()
        assert list(stream) == []

    def test_a_refused_query_raises_its_error_before_any_row(self, peer: Peer, client: WyrdClient) -> None:
        peer.routes["POST", "/v1/query"] = lambda _: problem(400, "WYRD_VALA_400_QUERY_INVALID_SQL")
        bifrost = Bifrost(client)
        for call in (bifrost.sql, bifrost.stream):
            with pytest.raises(WyrdError) as refused:
                call("DROP TABLE x")
            assert refused.value.member is Code.VALA_400_QUERY_INVALID_SQL

    @pytest.mark.parametrize(
        "arguments",
        [
            ("",),
            (7,),
            ("SELECT 1", "x"),
            ("SELECT 1", [float("nan")]),
            ("SELECT 1", [{}]),
            ("SELECT 1", [b"x"]),
        ],
    )
    def test_what_is_no_query_is_not_sent(
        self, peer: Peer, client: WyrdClient, arguments: tuple[Any, ...]
    ) -> None:
        with pytest.raises(WyrdError) as refused:
            Bifrost(client).sql(*arguments)
        assert refused.value.member is Code.SPEC_400_VALIDATION
        assert peer.seen == []

    @pytest.mark.parametrize("trace", ["", "0" * 32, TRACE.upper(), TRACE[:-1], 7])
    def test_what_is_no_trace_id_is_not_sent(self, peer: Peer, client: WyrdClient, trace: Any) -> None:
        with pytest.raises(WyrdError) as refused:
            Bifrost(client).trace_timeline(trace)
        assert refused.value.details["field"] == "trace_id"
        assert peer.seen == []

    def test_running_queries_are_named_by_request_ids(self, peer: Peer, client: WyrdClient) -> None:
        bifrost = Bifrost(client)
        for call in (bifrost.status, bifrost.cancel):
            with pytest.raises(WyrdError) as refused:
                call("../cards")
            assert refused.value.details["field"] == "request_id"
        name = uuid7()
        peer.routes["DELETE", f"/v1/query/{name}"] = lambda _: Answer(
            body={"request_id": name, "cancellation_started": True}
        )
        assert bifrost.cancel(name) == {"request_id": name, "cancellation_started": True}
