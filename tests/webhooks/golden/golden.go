// Writes the golden files: wire messages as Go encodes the structs of k8s.io/kube-scheduler/extender/v1.
// See README.md for how to run it.
package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	extender "k8s.io/kube-scheduler/extender/v1"
)

func write(dir, name string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".json"), text, 0o644); err != nil {
		panic(err)
	}
}

func pod(name, uid, scheduler string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "team-a", UID: types.UID(uid), ResourceVersion: "4711",
			CreationTimestamp: metav1.NewTime(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)),
			Labels:            map[string]string{"app": "train"},
			Annotations:       map[string]string{"note": "a<b & \"c\""},
		},
		Spec: v1.PodSpec{
			SchedulerName: scheduler,
			Containers: []v1.Container{{
				Name: "main", Image: "example/train:1",
				Resources: v1.ResourceRequirements{
					Limits:   v1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")},
					Requests: v1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("1Gi"), "nvidia.com/gpu": resource.MustParse("1")},
				},
			}},
		},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
}

func node(name string) v1.Node {
	return v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}},
		Spec:       v1.NodeSpec{PodCIDR: "10.0.0.0/24"},
		Status: v1.NodeStatus{
			Capacity:    v1.ResourceList{"cpu": resource.MustParse("64"), "nvidia.com/gpu": resource.MustParse("8")},
			Allocatable: v1.ResourceList{"cpu": resource.MustParse("63500m"), "nvidia.com/gpu": resource.MustParse("8")},
		},
	}
}

func main() {
	dir := os.Args[1]
	ours := pod("train-0", "0b0f8a5e-1111-4222-8333-444455556666", "tangram")
	foreign := pod("web-0", "0b0f8a5e-9999-4222-8333-444455556666", "default-scheduler")
	names := []string{"n1", "n2", "n3"}
	list := &v1.NodeList{Items: []v1.Node{node("n1"), node("n2"), node("n3")}}

	write(dir, "filter_names_request", extender.ExtenderArgs{Pod: ours, NodeNames: &names})
	write(dir, "filter_nodes_request", extender.ExtenderArgs{Pod: ours, Nodes: list})
	write(dir, "filter_foreign_request", extender.ExtenderArgs{Pod: foreign, NodeNames: &names})
	none := extender.FailedNodesMap{}
	n2 := []string{"n2"}
	write(dir, "filter_names_answer", extender.ExtenderFilterResult{NodeNames: &n2, FailedNodes: none, FailedAndUnresolvableNodes: none})
	write(dir, "filter_nodes_answer", extender.ExtenderFilterResult{
		Nodes: &v1.NodeList{Items: []v1.Node{node("n2")}}, FailedNodes: none, FailedAndUnresolvableNodes: none})
	write(dir, "filter_foreign_answer", extender.ExtenderFilterResult{NodeNames: &names, FailedNodes: none, FailedAndUnresolvableNodes: none})
	write(dir, "filter_refused_answer", extender.ExtenderFilterResult{
		NodeNames: &[]string{}, FailedNodes: none,
		FailedAndUnresolvableNodes: extender.FailedNodesMap{
			"n1": "too few whole GPUs", "n2": "too few whole GPUs", "n3": "untolerated taint"}})
	write(dir, "filter_error_answer", extender.ExtenderFilterResult{
		FailedNodes: none, FailedAndUnresolvableNodes: none, Error: "Tangram is not ready: caches are not synced"})

	write(dir, "prioritize_answer", extender.HostPriorityList{{Host: "n1", Score: 7}, {Host: "n2", Score: 3}})
	write(dir, "prioritize_trouble_answer", extender.HostPriorityList{})

	write(dir, "bind_request", extender.ExtenderBindingArgs{PodName: "train-0", PodNamespace: "team-a", PodUID: ours.UID, Node: "n2"})
	write(dir, "bind_answer", extender.ExtenderBindingResult{})
	write(dir, "bind_error_answer", extender.ExtenderBindingResult{Error: "planned on n1, not on n2"})

	meta := func(uids ...string) *extender.MetaVictims {
		victims := &extender.MetaVictims{Pods: []*extender.MetaPod{}, NumPDBViolations: 1}
		for _, uid := range uids {
			victims.Pods = append(victims.Pods, &extender.MetaPod{UID: uid})
		}
		return victims
	}
	a, b, c := pod("a", "uid-a", "tangram"), pod("b", "uid-b", "tangram"), pod("c", "uid-c", "tangram")
	write(dir, "preempt_meta_request", extender.ExtenderPreemptionArgs{
		Pod: ours, NodeNameToMetaVictims: map[string]*extender.MetaVictims{"n1": meta("uid-a", "uid-b"), "n2": meta("uid-c")}})
	write(dir, "preempt_full_request", extender.ExtenderPreemptionArgs{
		Pod: ours, NodeNameToVictims: map[string]*extender.Victims{
			"n1": {Pods: []*v1.Pod{a, b}, NumPDBViolations: 1}, "n2": {Pods: []*v1.Pod{c}, NumPDBViolations: 1}}})
	write(dir, "preempt_answer", extender.ExtenderPreemptionResult{
		NodeNameToMetaVictims: map[string]*extender.MetaVictims{"n1": meta("uid-a", "uid-b")}})
	write(dir, "preempt_trouble_answer", extender.ExtenderPreemptionResult{NodeNameToMetaVictims: map[string]*extender.MetaVictims{}})
}
