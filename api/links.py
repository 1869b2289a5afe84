"""Where people look at a workflow: its page in the Temporal UI."""

from urllib.parse import quote

from store.settings import Settings


def workflow_url(settings: Settings, workflow_id: str) -> str | None:
    """The page of a workflow; None where no `WYRD_TEMPORAL_UI_URL` is set."""
    if settings.temporal_ui_url is None:
        return None
    namespace = quote(settings.temporal_namespace, safe="")
    # A workflow id has slashes, which would be the path's own.
    workflow = quote(workflow_id, safe="")
    return f"{settings.temporal_ui_url.rstrip('/')}/namespaces/{namespace}/workflows/{workflow}"
