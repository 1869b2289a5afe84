"""Model calls: deployments, credentials, the provider's wire, usage.

Prompts arrive rendered and replies leave as text with a stop reason; what a reply means is judged
in `engine`. Retries belong to the caller: one call here is one attempt, and it never holds state.
"""

from gateway.calls import EffectiveRoute, MediaLoader, ModelCall, ModelReply, NativeBody, Usage
from gateway.deployments import Adapter, Deployment, GatewayConfig
from gateway.gateway import Gateway

__all__ = [
    "Adapter",
    "Deployment",
    "EffectiveRoute",
    "Gateway",
    "GatewayConfig",
    "MediaLoader",
    "ModelCall",
    "ModelReply",
    "NativeBody",
    "Usage",
]
