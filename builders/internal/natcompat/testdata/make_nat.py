"""Writes random evaluations and what NAT's own DPO builder makes of them, one JSON line each.

usage: make_nat.py SEED CASES > nat.jsonl
needs: pip install nvidia-nat-core==1.9.0 nvidia-nat-nemo-customizer==1.9.0, CPython 3.11

Values are chosen to hurt: lone surrogates, NaN, huge integers, numbers in strings, wrong types, equal ids of unequal kinds.
"""
import json, random, sys, math, warnings, logging, types, copy
warnings.simplefilter("ignore"); logging.disable(logging.CRITICAL)
from nat.data_models.intermediate_step import IntermediateStep
from nat.data_models.evaluator import EvalInput, EvalInputItem
from nat.plugins.customizer.dpo.trajectory_builder import DPOTrajectoryBuilder
from nat.plugins.customizer.dpo.config import DPOTrajectoryBuilderConfig
from nat.data_models.finetuning import TrajectoryCollection
nan=float('nan'); inf=math.inf
seed, N = int(sys.argv[1]), int(sys.argv[2])
r = random.Random(seed)
nums=[0,1,-1,2,2.0,0.5,0.3,0.1,0.2,-0.0,1e22,10**22,1e300,2**63,-2**63-1,5.5,nan,inf,-inf,1e-7,123456789.123,1e16,1e15,True,False,10**400]
strs=["","a","b","c","x y","é","日本","\ud83d","\U0001f642","it's","say \"q\"","\n\t\\","\x7f\x00","1","1.0","0.5"," 2 ","1_0","nan","inf","+7","abc","0x1","007","1e2","2.0","True","\u00a0","\u2028","a::b","\xad","\ue000"]
def val(d=0):
    k=r.random()
    if k<.35: return r.choice(strs)
    if k<.6: return r.choice(nums)
    if k<.68: return None
    if d>2: return r.choice(strs)
    if k<.84: return [val(d+1) for _ in range(r.randint(0,3))]
    return {r.choice(strs):val(d+1) for _ in range(r.randint(0,3))}
def msg():
    k=r.random()
    m={"role":r.choice(["user","system","assistant","tool"]),"content":r.choice(strs)}
    if k<.1: m["content"]=None
    elif k<.2: m["content"]=[{"type":"text","text":"t"}]
    elif k<.25: del m["role"]
    elif k<.3: m["role"]=val()
    elif k<.5: m["extra"]=val()
    return m
def prompt():
    k=r.random()
    if k<.5: return r.choice(strs)
    if k<.75: return [msg() for _ in range(r.randint(0,3))]
    return val()
def mut(v,p=.06):
    return val() if r.random()<p else v
def step():
    data={"input":prompt(),"output":r.choice(strs) if r.random()<.6 else val(),"chunk":None,"payload":None,"turn_id":mut(r.choice(["t","u","b::c","c"])),"turn_index":mut(0,.05),
      "candidate_index":mut(r.randint(0,5),.2),"score":mut(r.choice([0.1,0.2,0.3,0.5,0.9,1,0]),.2)}
    for k in list(data):
        if r.random()<.03: del data[k]
    if r.random()<.1: data["weird"]=val()
    p={"event_type":mut("TTC_END",.06),"event_timestamp":mut(1.5,.03),"span_event_timestamp":mut(None,.03),"framework":mut(None,.03),"name":mut("s",.06),"tags":mut(None,.03),
      "metadata":mut(r.choice([None,{}, {"a":1},{"tools_schema":[],"x":nan},{"tools_schema":[1]}, {"chat_inputs":{}}]),.06),"data":mut(data,.03),"usage_info":mut(r.choice([None,{}, {"num_llm_calls":1},{"token_usage":{"prompt_tokens":1}}]),.04),"UUID":mut("u",.03)}
    for k in list(p):
        if r.random()<.015: del p[k]
    if r.random()<.05: p["event_type"]=r.choice(["TTC_START","LLM_END","LLM_NEW_TOKEN","SPAN_CHUNK","ttc_end"])
    if r.random()<.05: p["framework"]=r.choice(["langchain","adk","x"])
    if r.random()<.05: p["tags"]=r.choice([["a"],[1],[],"a"])
    if r.random()<.05: p["span_event_timestamp"]=r.choice([1.0,"2",nan])
    s={"parent_id":mut("r",.02),"function_ancestry":mut({"function_id":mut("f",.02),"function_name":mut("n",.02),"parent_id":mut(None,.03),"parent_name":mut("p",.03)},.02),"payload":p}
    if r.random()<.02: s["x"]=1
    if r.random()<.02: del s[r.choice(list(s))]
    return s
def item(i):
    it={"question":"q"}
    k=r.random()
    if k<.7: it["id"]=r.choice([1,"1",2,2.0,"a","a::b",0,False,True,1.0,None,nan,"é",10**22,1e22,inf,"\ud83d"])
    elif k<.9: it["id"]=i
    it["intermediate_steps"]=[step() for _ in range(r.randint(0,8))]
    return it
for n in range(N):
    rows=[item(i) for i in range(r.randint(1,5))]
    text=json.dumps(rows)
    cfgd={"ttc_step_name":"s","exhaustive_pairs":r.random()<.8,"min_score_diff":r.choice([0,0,0.1,0.2]),"max_pairs_per_turn":r.choice([None,None,1,3,10]),"reward_from_score_diff":r.random()<.7,"require_multiple_candidates":r.random()<.7}
    b=DPOTrajectoryBuilder(DPOTrajectoryBuilderConfig(**cfgd))
    rows=json.loads(text)
    res={"config":cfgd,"input":text}
    try:
        items=[];rej=0
        for row in rows:
            raw=row.get("intermediate_steps") or []
            ok=[]
            for s in raw:
                try: ok.append(IntermediateStep.model_validate(s))
                except Exception: rej+=1
            items.append(EvalInputItem(id=row.get("id",""),input_obj="",expected_output_obj="",output_obj="",trajectory=ok,expected_trajectory=[],full_dataset_entry=row))
        er=types.SimpleNamespace(eval_input=EvalInput(eval_input_items=items))
        b._metrics={k:0 for k in ["total_examples","total_turns","total_candidates","total_pairs","total_trajectories","skipped_single_candidate","skipped_score_diff"]}
        c=b._collect_candidates(er); b._metrics["total_turns"]=len(c)
        ps=b._generate_preference_pairs(c); b._metrics["total_pairs"]=len(ps)
        tr=b._build_trajectories(ps); b._metrics["total_trajectories"]=len(tr)
        g=b._group_by_example(tr); b._metrics["total_examples"]=len(g)
        col=TrajectoryCollection(trajectories=g,run_id="r")
        res["expected"]=json.dumps(col.model_dump()); res["metrics"]=dict(b._metrics,steps_rejected_by_model=rej)
    except Exception as e:
        res["error"]=type(e).__name__+": "+str(e)[:300]
    if len(res["input"]) + len(res.get("expected", "")) < 5000:  # readable ones; long turns are for sort.txt
        print(json.dumps(res))
