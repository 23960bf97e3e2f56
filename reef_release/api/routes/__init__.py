"""One module of handlers per noun of the API; `HANDLERS` lists them all."""

from litestar.types import ControllerRouterHandler

from reef_release.api.routes.approvals import approve_release
from reef_release.api.routes.batches import BatchController, show_line
from reef_release.api.routes.blobs import BLOB_HANDLERS
from reef_release.api.routes.candidates import CandidateController
from reef_release.api.routes.chat import CHAT_HANDLERS
from reef_release.api.routes.current import current_document
from reef_release.api.routes.erasures import ERASURE_HANDLERS
from reef_release.api.routes.gates import GateController, release_lease, renew_lease
from reef_release.api.routes.health import HEALTH_HANDLERS
from reef_release.api.routes.interactions import INTERACTION_HANDLERS
from reef_release.api.routes.judging import JudgingController
from reef_release.api.routes.log import EventController, LogController
from reef_release.api.routes.nodes import report_node
from reef_release.api.routes.releases import ReleaseController
from reef_release.api.routes.scenarios import ScenarioController, create_scenario, list_scenarios
from reef_release.api.routes.signal import SIGNAL_HANDLERS
from reef_release.api.routes.trust import TRUST_HANDLERS
from reef_release.api.routes.watch import WatchController

__all__ = ["HANDLERS"]

HANDLERS: list[ControllerRouterHandler] = [
    *BLOB_HANDLERS,
    *CHAT_HANDLERS,
    *ERASURE_HANDLERS,
    *HEALTH_HANDLERS,
    *INTERACTION_HANDLERS,
    *SIGNAL_HANDLERS,
    *TRUST_HANDLERS,
    BatchController,
    CandidateController,
    EventController,
    GateController,
    JudgingController,
    LogController,
    ReleaseController,
    ScenarioController,
    WatchController,
    approve_release,
    create_scenario,
    current_document,
    list_scenarios,
    release_lease,
    renew_lease,
    report_node,
    show_line,
]
