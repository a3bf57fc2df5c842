"""The settings as the core takes them."""

from __future__ import annotations

from extender_api.settings import PlacementSettings, Settings, milliseconds
from scheduler.claim import ClaimRules
from scheduler.cluster import Cluster
from scheduler.engine import Engine, EngineSettings
from scheduler.object_facts import Objects
from scheduler.object_index import NO_OBJECTS
from scheduler.packing.named import policy_named
from scheduler.packing.pools import Pool, Pools
from scheduler.policy import PlacementPolicy, Policy
from topology.inventory import InventorySettings


def inventory_settings(settings: Settings) -> InventorySettings:
    """What the settings say about devices and levels. Raises ValueError naming what is wrong."""
    return InventorySettings(
        device_resources=settings.devices.resources,
        shares_by_default=settings.devices.shares_by_default,
        reserve_mib=settings.devices.reserve_mib,
        catalogue=dict(settings.devices.catalogue),
        levels=settings.topology.levels,
    )


def claim_rules(settings: Settings) -> ClaimRules:
    """Whose pods are ours, and how their claims on queues are read."""
    return ClaimRules(
        scheduler_name=settings.scheduler_name,
        default_queue=settings.queues.default,
        priority_classes=frozenset(settings.queues.priority_classes),
    )


def placement_policy(settings: PlacementSettings) -> Policy:
    """The policy that the settings name, with its pools."""
    parts = {name: getattr(settings, name) for name in ("cpu", "gpu", "device")}
    if any(parts.values()):
        usual = "spread" if settings.policy == "spread" else "binpack"
        other: Policy = PlacementPolicy.from_names(**{name: part or usual for name, part in parts.items()})
    else:
        other = policy_named(settings.policy)
    if not settings.pools:
        return other
    return Pools([_pool(label, name) for label, name in settings.pools.items()], other)


def _pool(label: str, name: str) -> Pool:
    key, equals, value = label.partition("=")
    return Pool(key, value if equals else None, policy_named(name))


def new_engine(settings: Settings, objects: Objects = NO_OBJECTS) -> Engine:
    """An engine with an empty cluster. `objects` are the owners and groups of pods."""
    policy = placement_policy(settings.placement)
    cluster = Cluster(inventory=inventory_settings(settings), policy=policy, rules=claim_rules(settings))
    return Engine(
        cluster,
        EngineSettings(
            scheduler_name=settings.scheduler_name,
            device_resources=settings.devices.resources,
            booking_deadline_ms=milliseconds(settings.gate.booking_deadline_s),
            max_in_flight=settings.gate.max_released,
            nominate_from_nodes=settings.nomination.min_nodes,
            tell_after_ms=milliseconds(settings.reasons.tell_after_s),
            retell_after_ms=milliseconds(settings.reasons.retell_after_s),
            require_device_variable=settings.gate.require_device_variable,
            fact_ttl_ms=milliseconds(settings.gate.fact_ttl_s),
            starving_after_ms=round(settings.queues.starving_after_s * 1000),
            reservations=settings.queues.reservations,
            gang_bind_wait_ms=milliseconds(settings.gangs.bind_wait_s),
            stale_grace_ms=round(settings.gangs.stale_grace_s * 1000),
            restart_stale=settings.gangs.stale == "restart",
        ),
        objects,
    )
