"""Times what NAT does between a finished evaluation and the files its trainer uploads, with NAT's own classes.

usage: time_nat.py WORKFLOW_OUTPUT.json OUTPUT_FOLDER; prints the seconds, not counting imports, and the peak memory in
bytes.
"""
import asyncio
import json
import logging
import resource
import sys
import time
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from nat.data_models.evaluate_runtime import EvaluationRunOutput, ProfilerResults, UsageStats
from nat.data_models.evaluator import EvalInput, EvalInputItem
from nat.plugins.customizer.dpo.config import DPOTrajectoryBuilderConfig, NeMoCustomizerTrainerAdapterConfig
from nat.plugins.customizer.dpo.trainer_adapter import NeMoCustomizerTrainerAdapter
from nat.plugins.customizer.dpo.trajectory_builder import DPOTrajectoryBuilder
from nat.plugins.eval.utils.intermediate_step_adapter import IntermediateStepAdapter


def evaluation(path):
    """What NAT's evaluation holds in memory when it hands over to the builder."""
    steps = IntermediateStepAdapter()
    with open(path, encoding="utf-8") as f:
        rows = json.load(f)
    items = [EvalInputItem(id=row["id"], input_obj=row["question"], expected_output_obj=row["answer"], output_obj=row["generated_answer"],
                           trajectory=steps.validate_intermediate_steps(row["intermediate_steps"]), expected_trajectory=[], full_dataset_entry=row)
             for row in rows]
    return EvaluationRunOutput(workflow_output_file=None, evaluator_output_files=[], workflow_interrupted=False,
                               eval_input=EvalInput(eval_input_items=items), evaluation_results=[], usage_stats=UsageStats(),
                               profiler_results=ProfilerResults())


async def build(output):
    builder = DPOTrajectoryBuilder(DPOTrajectoryBuilderConfig())

    async def run_eval():
        return output

    builder.run_eval = run_eval
    await builder.start_run("bench")
    built.append(await builder.finalize("bench"))


built = []
began = time.perf_counter()
asyncio.run(build(evaluation(sys.argv[1])))
adapter = NeMoCustomizerTrainerAdapter(NeMoCustomizerTrainerAdapterConfig(
    entity_host="http://localhost", datastore_host="http://localhost", namespace="n", customization_config="c"))
training, validation = adapter._trajectory_to_dpo_jsonl(built[0])
out = Path(sys.argv[2])
(out / "training_file.jsonl").write_text(training)
(out / "validation_file.jsonl").write_text(validation)
print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024))
