"""SQL with its parameters and the exact rows that it answers for acme."""

# One statement a line reads best, however long.
# ruff: noqa: E501

from __future__ import annotations

from typing import Any

from tests.bifrost.asked import RUNS

TICKETS = "vala.datasets.tickets"

TIMELINE = """
SELECT trace_id, span_id, parent_span_id, trace_state, flags, name, kind, start_time_unix_nano,
       end_time_unix_nano, status_code, status_message, attributes, dropped_attributes_count, events,
       dropped_events_count, links, dropped_links_count, scope_name, service_name
FROM vala.traces.spans WHERE trace_id = decode($1, 'hex')
   OR span_id IN (SELECT span_id FROM (SELECT span_id, unnest(links) AS link FROM vala.traces.spans)
                  WHERE link['trace_id'] = decode($1, 'hex'))
ORDER BY start_time_unix_nano, span_id
"""

ALLOWED: list[tuple[str, list[Any], list[tuple[Any, ...]]]] = [
    (
        """SELECT t.run_id, t.question, t.answer, r.verdict, r.verifier_version
           FROM vala.datasets.tickets AS t JOIN vala.verification.results AS r ON r.run_id = t.run_id
           WHERE t.ticket_id = $1""",
        ["ours-4"],
        [(RUNS[4], "ours question 4", "ours answer 4", "passed", "1.0.0")],
    ),
    (f"SELECT count(*), sum(priority), avg(priority) FROM {TICKETS}", [], [(7, 15, 2.5)]),
    (
        "SELECT verdict, count(*) AS n FROM vala.verification.results GROUP BY verdict ORDER BY n DESC",
        [],
        [("passed", 4), ("failed", 2)],
    ),
    (
        f"SELECT ticket_id, row_number() OVER (ORDER BY priority DESC) AS place FROM {TICKETS} "
        "WHERE priority IS NOT NULL QUALIFY place <= 2 ORDER BY place",
        [],
        [("ours-5", 1), ("ours-4", 2)],
    ),
    (
        f"SELECT ticket_id, lag(priority, 1, -1) OVER w FROM {TICKETS} WHERE priority < 2 "
        "WINDOW w AS (ORDER BY priority ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
        [],
        [("ours-0", -1), ("ours-1", 0)],
    ),
    (
        f"WITH high AS (SELECT * FROM {TICKETS} WHERE priority > 3), low AS MATERIALIZED (SELECT * FROM {TICKETS} "
        "WHERE priority < 1) SELECT ticket_id FROM high UNION ALL SELECT ticket_id FROM low ORDER BY 1",
        [],
        [("ours-0",), ("ours-4",), ("ours-5",)],
    ),
    (
        "WITH RECURSIVE up(span_id, parent, depth) AS ("
        "  SELECT span_id, parent_span_id, 0 FROM vala.traces.spans WHERE span_id = $1"
        "  UNION ALL SELECT s.span_id, s.parent_span_id, depth + 1 FROM up JOIN vala.traces.spans s"
        "  ON s.span_id = up.parent) SELECT max(depth) FROM up LIMIT 1",
        ["00f067aa0ba902b3"],
        [(3,)],
    ),
    ("SELECT span_id FROM (SELECT span_id, unnest(links) AS link FROM vala.traces.spans) WHERE link['trace_id'] = $1",
     ["f" * 32], [("00f067aa0ba902b2",)]),
    ("SELECT l.link.span_id FROM vala.traces.spans, unnest(links) AS l(link)", [], [("e" * 16,)]),
    (f"SELECT details ->> 'word', details -> '$.tags[0]' FROM {TICKETS} WHERE ticket_id = 'ours-1'", [],
     [("ours", '"ours-a"')]),
    (f"SELECT json_extract_string(details, '$.word') FROM {TICKETS} WHERE priority = 1", [], [("ours",)]),
    (f"SELECT e.value FROM {TICKETS} t, json_each(t.details, '$.tags') e WHERE priority = 1 ORDER BY 1", [],
     [('"b"',), ('"ours-a"',)]),
    ("SELECT status_code, quantile_cont(duration_ms, 0.5) FROM vala.traces.spans GROUP BY ALL", [],
     [("ok", 0.001)]),
    ("SELECT approx_count_distinct(span_id) > 2, count(DISTINCT span_id) FROM vala.traces.spans", [], [(True, 4)]),
    (f"SELECT count(*) FILTER (WHERE priority > 3), bool_or(priority = 5) FROM {TICKETS}", [], [(2, True)]),
    (f"SELECT string_agg(ticket_id, ',' ORDER BY priority) FROM {TICKETS} WHERE priority < 2", [],
     [("ours-0,ours-1",)]),
    (f"SELECT CASE WHEN priority > 4 THEN 'high' ELSE 'low' END AS p, count(*) FROM {TICKETS} GROUP BY p ORDER BY p",
     [], [("high", 1), ("low", 6)]),
    (f"SELECT date_trunc('day', wyrd_ingested_at) <= now(), wyrd_ingested_at > now() - INTERVAL 1 DAY FROM {TICKETS} "
     "LIMIT 1", [], [(True, True)]),
    (f"SELECT ticket_id FROM {TICKETS} t WHERE EXISTS (SELECT 1 FROM vala.verification.results r "
     "WHERE r.run_id = t.run_id AND r.verdict = 'failed') ORDER BY ticket_id", [], [("ours-0",), ("ours-3",)]),
    (f"SELECT ticket_id FROM {TICKETS} WHERE ticket_id LIKE 'ours-%' AND regexp_matches(question, 'n [12]$') "
     "AND priority BETWEEN 1 AND 5 AND priority NOT IN (2)", [], [("ours-1",)]),
    (f"SELECT * EXCLUDE (question, answer) REPLACE (upper(ticket_id) AS ticket_id) FROM (SELECT ticket_id, question, "
     f"answer, priority FROM {TICKETS}) WHERE priority = 1", [], [("OURS-1", 1)]),
    (f"SELECT * FROM (SELECT ticket_id, question, answer FROM {TICKETS} WHERE priority = 1) "
     "UNPIVOT (words FOR place IN (question, answer)) ORDER BY place", [],
     [("ours-1", "answer", "ours answer 1"), ("ours-1", "question", "ours question 1")]),
    ("SELECT passed, failed FROM (SELECT verdict, source FROM vala.verification.results) "
     "PIVOT (count(*) FOR verdict IN ('passed', 'failed'))", [], [(4, 2)]),
    ("SELECT list_transform([1, 2], lambda x: x * 10), list_filter([1, 2, 3], lambda x: x > 1), [x + 1 FOR x IN [1]]", [],
     [([10, 20], [2, 3], [2])]),
    ("SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(n, t) WHERE n = $1", [2], [(2, "b")]),
    ("SELECT sum(i) FROM range(1, 11) AS r(i)", [], [(55,)]),
    ("SELECT * FROM generate_series(1, 3)", [], [(1,), (2,), (3,)]),
    ("SELECT try_cast('x' AS INTEGER), TRY(1 // 0), coalesce(NULL, 2), nullif(1, 1), greatest(1, 2)", [],
     [(None, None, 2, None, 2)]),
    ("SELECT $1, $2, $3, $4, $1", [None, True, 9007199254740993, "it's; DROP TABLE x --"],
     [(None, True, 9007199254740993, "it's; DROP TABLE x --", None)]),
    ("SELECT $1 + 0", [2**100], [(2**100,)]),
    (f"SELECT count(*) FROM {TICKETS} a ASOF JOIN {TICKETS} b ON a.priority >= b.priority", [], [(6,)]),
    ("SELECT GROUPING(verdict), verdict, count(*) FROM vala.verification.results GROUP BY ROLLUP (verdict) "
     "ORDER BY 1, 2", [], [(0, "failed", 2), (0, "passed", 4), (1, None, 6)]),
    (f"SELECT count(*) FROM {TICKETS} TABLESAMPLE 100%", [], [(7,)]),
    (f"SELECT ticket_id FROM {TICKETS} ORDER BY priority DESC NULLS LAST LIMIT $1 OFFSET $2", [1, 1], [("ours-4",)]),
    ("SELECT lower('É'), 'a' || 'b', 'abc'[1:2], {'a': 1}.a, [1, 2][1], 'x' COLLATE NOCASE = 'X'", [],
     [("é", "ab", "ab", 1, 1, True)]),
    (f"SELECT DISTINCT ON (priority % 2) ticket_id FROM {TICKETS} WHERE priority < 2 ORDER BY priority % 2, priority",
     [], [("ours-0",), ("ours-1",)]),
    (f"SELECT count(*) FROM {TICKETS} NATURAL JOIN (SELECT 'ours-1' AS ticket_id)", [], [(1,)]),
    ("SELECT ';' AS semicolon -- ; SELECT 2", [], [(";",)]),
    (f"UNPIVOT (SELECT question, answer FROM {TICKETS} WHERE priority = 1) ON question, answer INTO NAME n VALUE v", [],
     [("question", "ours question 1"), ("answer", "ours answer 1")]),
    ("SELECT 1;", [], [(1,)]),
]  # fmt: skip
