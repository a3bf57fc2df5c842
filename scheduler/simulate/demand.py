"""What all jobs of a scenario ask for, as a mix: fragmentation is measured by it where no demand is known before."""

from __future__ import annotations

from scheduler.cluster import Cluster
from scheduler.packing.learner import pod_class
from scheduler.packing.mix import Mix
from scheduler.packing.survey import models_open_to
from scheduler.room import Form
from scheduler.simulate.forms import PodForms
from scheduler.simulate.scenario import Scenario


def demand_of(scenario: Scenario, forms: PodForms, cluster: Cluster) -> Mix:
    """The mix of all pods that make sense, in the order of their first appearance."""
    counts: dict[Form, int] = {}
    for job in scenario.jobs:
        for pod in job.pods:
            form = forms.of(pod)
            if form.request is not None:
                key = Form(form.request, form.constraints)
                counts[key] = counts.get(key, 0) + 1
    classes = [
        pod_class(form.request, models_open_to(cluster, form.constraints))
        for form in counts
        if form.request is not None
    ]
    return Mix(tuple(classes), tuple(counts.values()))
