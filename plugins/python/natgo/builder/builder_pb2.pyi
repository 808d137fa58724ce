from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

CONTENT_PART_CANDIDATE_OUTPUT: ContentPart
CONTENT_PART_CANDIDATE_PROMPT: ContentPart
CONTENT_PART_INLINE_MESSAGES: ContentPart
CONTENT_PART_INLINE_TEXT: ContentPart
CONTENT_PART_NODE_SPAN: ContentPart
DESCRIPTOR: _descriptor.FileDescriptor
FIDELITY_IDS: Fidelity
FIDELITY_IDS_LOGPROBS: Fidelity
FIDELITY_PARTIAL: Fidelity
FIDELITY_TEXT: Fidelity
FORM_ABSENT: Form
FORM_NULL: Form
FORM_PARTS: Form
FORM_TEXT: Form
HINT_KIND_HINDSIGHT: HintKind
HINT_KIND_KNOWABLE: HintKind
KIND_DEMONSTRATION: Kind
KIND_DISTILLATION: Kind
KIND_PREFERENCE: Kind
KIND_ROLLOUT: Kind
KIND_STATE: Kind
KIND_UNSPECIFIED: Kind
PROMPT_FORM_MESSAGES: PromptForm
PROMPT_FORM_OTHER: PromptForm
PROMPT_FORM_TEXT: PromptForm
SAMPLED_ASSUMED: Sampled
SAMPLED_NO: Sampled
SAMPLED_YES: Sampled
SEVERITY_ERROR: Severity
SEVERITY_WARNING: Severity
TARGET_FAILED_TURN: Target
TARGET_NEXT_TURN: Target
TRAIN_ALL: Train
TRAIN_CALLS: Train
TRAIN_FLAGGED: Train
TRAIN_LAST: Train
UNIT_EXAMPLE: Unit
UNIT_RUN: Unit
UNIT_TASK: Unit

class BuildRequest(_message.Message):
    __slots__ = ["credit", "parts", "session"]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    credit: int
    parts: _containers.RepeatedCompositeFieldContainer[GroupPart]
    session: str
    def __init__(self, session: _Optional[str] = ..., credit: _Optional[int] = ..., parts: _Optional[_Iterable[_Union[GroupPart, _Mapping]]] = ...) -> None: ...

class BuildResponse(_message.Message):
    __slots__ = ["credit", "parts", "progress"]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    credit: int
    parts: _containers.RepeatedCompositeFieldContainer[ResultPart]
    progress: Progress
    def __init__(self, credit: _Optional[int] = ..., parts: _Optional[_Iterable[_Union[ResultPart, _Mapping]]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ...) -> None: ...

class BuilderInfo(_message.Message):
    __slots__ = ["config_schema", "doc", "kinds", "name", "raw_steps", "stability", "unit", "version"]
    CONFIG_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    DOC_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    RAW_STEPS_FIELD_NUMBER: _ClassVar[int]
    STABILITY_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    config_schema: bytes
    doc: str
    kinds: _containers.RepeatedScalarFieldContainer[Kind]
    name: str
    raw_steps: bool
    stability: str
    unit: Unit
    version: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., stability: _Optional[str] = ..., doc: _Optional[str] = ..., unit: _Optional[_Union[Unit, str]] = ..., kinds: _Optional[_Iterable[_Union[Kind, str]]] = ..., raw_steps: bool = ..., config_schema: _Optional[bytes] = ...) -> None: ...

class Candidate(_message.Message):
    __slots__ = ["index", "metadata", "offset", "output", "prompt", "score", "score_error", "step", "turn", "turn_index"]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    SCORE_ERROR_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    TURN_INDEX_FIELD_NUMBER: _ClassVar[int]
    index: int
    metadata: int
    offset: int
    output: int
    prompt: int
    score: float
    score_error: int
    step: int
    turn: int
    turn_index: int
    def __init__(self, step: _Optional[int] = ..., turn: _Optional[int] = ..., turn_index: _Optional[int] = ..., index: _Optional[int] = ..., prompt: _Optional[int] = ..., output: _Optional[int] = ..., score: _Optional[float] = ..., score_error: _Optional[int] = ..., metadata: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class CloseRequest(_message.Message):
    __slots__ = ["session"]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: str
    def __init__(self, session: _Optional[str] = ...) -> None: ...

class CloseResponse(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class Content(_message.Message):
    __slots__ = ["candidate", "example", "last", "messages", "part", "skip", "text"]
    CANDIDATE_FIELD_NUMBER: _ClassVar[int]
    EXAMPLE_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    SKIP_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    candidate: int
    example: int
    last: int
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    part: ContentPart
    skip: int
    text: int
    def __init__(self, part: _Optional[_Union[ContentPart, str]] = ..., text: _Optional[int] = ..., messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., example: _Optional[int] = ..., candidate: _Optional[int] = ..., last: _Optional[int] = ..., skip: _Optional[int] = ...) -> None: ...

class Count(_message.Message):
    __slots__ = ["n", "name"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    n: int
    name: int
    def __init__(self, name: _Optional[int] = ..., n: _Optional[int] = ...) -> None: ...

class Demonstration(_message.Message):
    __slots__ = ["head", "mask_reasoning", "messages", "score", "train", "trained", "weight"]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    MASK_REASONING_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    TRAINED_FIELD_NUMBER: _ClassVar[int]
    TRAIN_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    head: Head
    mask_reasoning: bool
    messages: Content
    score: float
    train: Train
    trained: _containers.RepeatedScalarFieldContainer[bool]
    weight: float
    def __init__(self, head: _Optional[_Union[Head, _Mapping]] = ..., messages: _Optional[_Union[Content, _Mapping]] = ..., train: _Optional[_Union[Train, str]] = ..., trained: _Optional[_Iterable[bool]] = ..., weight: _Optional[float] = ..., score: _Optional[float] = ..., mask_reasoning: bool = ...) -> None: ...

class DescribeRequest(_message.Message):
    __slots__ = ["host_version", "protocol_minor"]
    HOST_VERSION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_MINOR_FIELD_NUMBER: _ClassVar[int]
    host_version: str
    protocol_minor: int
    def __init__(self, protocol_minor: _Optional[int] = ..., host_version: _Optional[str] = ...) -> None: ...

class DescribeResponse(_message.Message):
    __slots__ = ["builders", "capabilities", "name", "protocol_minor", "version"]
    BUILDERS_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_MINOR_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    builders: _containers.RepeatedCompositeFieldContainer[BuilderInfo]
    capabilities: _containers.RepeatedScalarFieldContainer[str]
    name: str
    protocol_minor: int
    version: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., protocol_minor: _Optional[int] = ..., capabilities: _Optional[_Iterable[str]] = ..., builders: _Optional[_Iterable[_Union[BuilderInfo, _Mapping]]] = ...) -> None: ...

class Distillation(_message.Message):
    __slots__ = ["head", "messages", "sites"]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    SITES_FIELD_NUMBER: _ClassVar[int]
    head: Head
    messages: Content
    sites: _containers.RepeatedCompositeFieldContainer[Site]
    def __init__(self, head: _Optional[_Union[Head, _Mapping]] = ..., messages: _Optional[_Union[Content, _Mapping]] = ..., sites: _Optional[_Iterable[_Union[Site, _Mapping]]] = ...) -> None: ...

class Done(_message.Message):
    __slots__ = ["counts", "drops", "error", "records"]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    DROPS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    counts: _containers.RepeatedCompositeFieldContainer[Count]
    drops: int
    error: GroupError
    records: int
    def __init__(self, records: _Optional[int] = ..., drops: _Optional[int] = ..., error: _Optional[_Union[GroupError, _Mapping]] = ..., counts: _Optional[_Iterable[_Union[Count, _Mapping]]] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class DrainResponse(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class Drop(_message.Message):
    __slots__ = ["builder", "count", "detail", "example", "file", "format", "index", "offset", "reason", "run", "stage", "turn", "unit"]
    BUILDER_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    EXAMPLE_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    builder: int
    count: int
    detail: int
    example: int
    file: int
    format: int
    index: int
    offset: int
    reason: int
    run: int
    stage: int
    turn: int
    unit: int
    def __init__(self, reason: _Optional[int] = ..., unit: _Optional[int] = ..., detail: _Optional[int] = ..., run: _Optional[int] = ..., example: _Optional[int] = ..., turn: _Optional[int] = ..., index: _Optional[int] = ..., file: _Optional[int] = ..., offset: _Optional[int] = ..., count: _Optional[int] = ..., stage: _Optional[int] = ..., builder: _Optional[int] = ..., format: _Optional[int] = ...) -> None: ...

class Example(_message.Message):
    __slots__ = ["candidates", "fidelity", "file", "gaps", "id", "interrupted", "more", "nodes", "offset", "policy", "raw_id", "reward", "row", "run", "sampling", "steps", "task", "teacher_top_k", "tools", "trial"]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    FIDELITY_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    GAPS_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTED_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    RAW_ID_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    TEACHER_TOP_K_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    TRIAL_FIELD_NUMBER: _ClassVar[int]
    candidates: _containers.RepeatedCompositeFieldContainer[Candidate]
    fidelity: Fidelity
    file: int
    gaps: int
    id: int
    interrupted: bool
    more: bool
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    offset: int
    policy: int
    raw_id: int
    reward: float
    row: int
    run: int
    sampling: Sampling
    steps: _containers.RepeatedCompositeFieldContainer[Step]
    task: int
    teacher_top_k: int
    tools: _containers.RepeatedCompositeFieldContainer[Tool]
    trial: int
    def __init__(self, more: bool = ..., id: _Optional[int] = ..., task: _Optional[int] = ..., trial: _Optional[int] = ..., run: _Optional[int] = ..., row: _Optional[int] = ..., file: _Optional[int] = ..., offset: _Optional[int] = ..., nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ..., tools: _Optional[_Iterable[_Union[Tool, _Mapping]]] = ..., candidates: _Optional[_Iterable[_Union[Candidate, _Mapping]]] = ..., steps: _Optional[_Iterable[_Union[Step, _Mapping]]] = ..., reward: _Optional[float] = ..., policy: _Optional[int] = ..., fidelity: _Optional[_Union[Fidelity, str]] = ..., sampling: _Optional[_Union[Sampling, _Mapping]] = ..., raw_id: _Optional[int] = ..., interrupted: bool = ..., teacher_top_k: _Optional[int] = ..., gaps: _Optional[int] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ["kind", "meta"]
    KIND_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    kind: int
    meta: int
    def __init__(self, kind: _Optional[int] = ..., meta: _Optional[int] = ...) -> None: ...

class Finding(_message.Message):
    __slots__ = ["code", "fix", "message", "pointer", "severity"]
    CODE_FIELD_NUMBER: _ClassVar[int]
    FIX_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    POINTER_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    code: str
    fix: str
    message: str
    pointer: str
    severity: Severity
    def __init__(self, pointer: _Optional[str] = ..., message: _Optional[str] = ..., fix: _Optional[str] = ..., severity: _Optional[_Union[Severity, str]] = ..., code: _Optional[str] = ...) -> None: ...

class GroupError(_message.Message):
    __slots__ = ["message", "stack"]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STACK_FIELD_NUMBER: _ClassVar[int]
    message: int
    stack: int
    def __init__(self, message: _Optional[int] = ..., stack: _Optional[int] = ...) -> None: ...

class GroupPart(_message.Message):
    __slots__ = ["begin", "end", "ends", "examples", "group", "key", "prompts", "scales", "text"]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    PROMPTS_FIELD_NUMBER: _ClassVar[int]
    SCALES_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    begin: bool
    end: bool
    ends: _containers.RepeatedScalarFieldContainer[int]
    examples: _containers.RepeatedCompositeFieldContainer[Example]
    group: int
    key: int
    prompts: _containers.RepeatedCompositeFieldContainer[Prompt]
    scales: _containers.RepeatedCompositeFieldContainer[Scale]
    text: bytes
    def __init__(self, group: _Optional[int] = ..., begin: bool = ..., end: bool = ..., key: _Optional[int] = ..., text: _Optional[bytes] = ..., ends: _Optional[_Iterable[int]] = ..., prompts: _Optional[_Iterable[_Union[Prompt, _Mapping]]] = ..., examples: _Optional[_Iterable[_Union[Example, _Mapping]]] = ..., scales: _Optional[_Iterable[_Union[Scale, _Mapping]]] = ...) -> None: ...

class Head(_message.Message):
    __slots__ = ["edits", "example", "metadata", "turn"]
    EDITS_FIELD_NUMBER: _ClassVar[int]
    EXAMPLE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    edits: int
    example: int
    metadata: int
    turn: int
    def __init__(self, example: _Optional[int] = ..., turn: _Optional[int] = ..., metadata: _Optional[int] = ..., edits: _Optional[int] = ...) -> None: ...

class LogProbs(_message.Message):
    __slots__ = ["values"]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, values: _Optional[_Iterable[float]] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ["key", "value"]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: int
    value: int
    def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ["extra", "form", "name", "parts", "reasoning", "reasoning_key", "role", "text", "tool_call_id", "tool_calls"]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    REASONING_FIELD_NUMBER: _ClassVar[int]
    REASONING_KEY_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    extra: _containers.RepeatedCompositeFieldContainer[Member]
    form: Form
    name: int
    parts: _containers.RepeatedCompositeFieldContainer[Part]
    reasoning: int
    reasoning_key: int
    role: int
    text: int
    tool_call_id: int
    tool_calls: _containers.RepeatedCompositeFieldContainer[ToolCall]
    def __init__(self, role: _Optional[int] = ..., form: _Optional[_Union[Form, str]] = ..., text: _Optional[int] = ..., parts: _Optional[_Iterable[_Union[Part, _Mapping]]] = ..., name: _Optional[int] = ..., tool_calls: _Optional[_Iterable[_Union[ToolCall, _Mapping]]] = ..., tool_call_id: _Optional[int] = ..., reasoning: _Optional[int] = ..., reasoning_key: _Optional[int] = ..., extra: _Optional[_Iterable[_Union[Member, _Mapping]]] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ["error", "failure", "finish_reason", "log_probs", "message", "parent", "policy", "sampled", "token_ids"]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    LOG_PROBS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    SAMPLED_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    error: bool
    failure: Failure
    finish_reason: int
    log_probs: LogProbs
    message: Message
    parent: int
    policy: int
    sampled: Sampled
    token_ids: TokenIDs
    def __init__(self, parent: _Optional[int] = ..., message: _Optional[_Union[Message, _Mapping]] = ..., sampled: _Optional[_Union[Sampled, str]] = ..., policy: _Optional[int] = ..., token_ids: _Optional[_Union[TokenIDs, _Mapping]] = ..., log_probs: _Optional[_Union[LogProbs, _Mapping]] = ..., finish_reason: _Optional[int] = ..., error: bool = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class OpenRequest(_message.Message):
    __slots__ = ["builder", "config", "name", "protocol_minor"]
    BUILDER_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_MINOR_FIELD_NUMBER: _ClassVar[int]
    builder: str
    config: bytes
    name: str
    protocol_minor: int
    def __init__(self, builder: _Optional[str] = ..., config: _Optional[bytes] = ..., name: _Optional[str] = ..., protocol_minor: _Optional[int] = ...) -> None: ...

class OpenResponse(_message.Message):
    __slots__ = ["findings", "session"]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    findings: _containers.RepeatedCompositeFieldContainer[Finding]
    session: str
    def __init__(self, session: _Optional[str] = ..., findings: _Optional[_Iterable[_Union[Finding, _Mapping]]] = ...) -> None: ...

class Pairs(_message.Message):
    __slots__ = ["chosen", "chosen_policy", "example", "metadata", "prompt", "rejected", "rejected_policy", "reward"]
    CHOSEN_FIELD_NUMBER: _ClassVar[int]
    CHOSEN_POLICY_FIELD_NUMBER: _ClassVar[int]
    EXAMPLE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    REJECTED_POLICY_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    chosen: _containers.RepeatedScalarFieldContainer[int]
    chosen_policy: _containers.RepeatedScalarFieldContainer[int]
    example: _containers.RepeatedScalarFieldContainer[int]
    metadata: _containers.RepeatedScalarFieldContainer[int]
    prompt: _containers.RepeatedScalarFieldContainer[int]
    rejected: _containers.RepeatedScalarFieldContainer[int]
    rejected_policy: _containers.RepeatedScalarFieldContainer[int]
    reward: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, example: _Optional[_Iterable[int]] = ..., prompt: _Optional[_Iterable[int]] = ..., chosen: _Optional[_Iterable[int]] = ..., rejected: _Optional[_Iterable[int]] = ..., reward: _Optional[_Iterable[float]] = ..., metadata: _Optional[_Iterable[int]] = ..., chosen_policy: _Optional[_Iterable[int]] = ..., rejected_policy: _Optional[_Iterable[int]] = ...) -> None: ...

class Part(_message.Message):
    __slots__ = ["raw", "text", "type"]
    RAW_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    raw: int
    text: int
    type: int
    def __init__(self, type: _Optional[int] = ..., text: _Optional[int] = ..., raw: _Optional[int] = ...) -> None: ...

class Preference(_message.Message):
    __slots__ = ["chosen", "chosen_index", "chosen_policy", "chosen_score", "head", "prompt", "rejected", "rejected_index", "rejected_policy", "rejected_score", "reward", "score_name"]
    CHOSEN_FIELD_NUMBER: _ClassVar[int]
    CHOSEN_INDEX_FIELD_NUMBER: _ClassVar[int]
    CHOSEN_POLICY_FIELD_NUMBER: _ClassVar[int]
    CHOSEN_SCORE_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    REJECTED_INDEX_FIELD_NUMBER: _ClassVar[int]
    REJECTED_POLICY_FIELD_NUMBER: _ClassVar[int]
    REJECTED_SCORE_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    SCORE_NAME_FIELD_NUMBER: _ClassVar[int]
    chosen: Content
    chosen_index: int
    chosen_policy: int
    chosen_score: float
    head: Head
    prompt: Content
    rejected: Content
    rejected_index: int
    rejected_policy: int
    rejected_score: float
    reward: float
    score_name: int
    def __init__(self, head: _Optional[_Union[Head, _Mapping]] = ..., prompt: _Optional[_Union[Content, _Mapping]] = ..., chosen: _Optional[_Union[Content, _Mapping]] = ..., rejected: _Optional[_Union[Content, _Mapping]] = ..., reward: _Optional[float] = ..., score_name: _Optional[int] = ..., chosen_score: _Optional[float] = ..., rejected_score: _Optional[float] = ..., chosen_index: _Optional[int] = ..., rejected_index: _Optional[int] = ..., chosen_policy: _Optional[int] = ..., rejected_policy: _Optional[int] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ["done", "group", "total"]
    DONE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    done: int
    group: int
    total: int
    def __init__(self, group: _Optional[int] = ..., done: _Optional[int] = ..., total: _Optional[int] = ...) -> None: ...

class Prompt(_message.Message):
    __slots__ = ["form", "messages", "text"]
    FORM_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    form: PromptForm
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    text: int
    def __init__(self, form: _Optional[_Union[PromptForm, str]] = ..., text: _Optional[int] = ..., messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ...) -> None: ...

class Record(_message.Message):
    __slots__ = ["demonstration", "distillation", "preference", "rollout", "state"]
    DEMONSTRATION_FIELD_NUMBER: _ClassVar[int]
    DISTILLATION_FIELD_NUMBER: _ClassVar[int]
    PREFERENCE_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    demonstration: Demonstration
    distillation: Distillation
    preference: Preference
    rollout: Rollout
    state: State
    def __init__(self, preference: _Optional[_Union[Preference, _Mapping]] = ..., demonstration: _Optional[_Union[Demonstration, _Mapping]] = ..., rollout: _Optional[_Union[Rollout, _Mapping]] = ..., distillation: _Optional[_Union[Distillation, _Mapping]] = ..., state: _Optional[_Union[State, _Mapping]] = ...) -> None: ...

class ResultPart(_message.Message):
    __slots__ = ["done", "drops", "ends", "group", "pairs", "part", "records", "text"]
    DONE_FIELD_NUMBER: _ClassVar[int]
    DROPS_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PAIRS_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    done: Done
    drops: _containers.RepeatedCompositeFieldContainer[Drop]
    ends: _containers.RepeatedScalarFieldContainer[int]
    group: int
    pairs: Pairs
    part: int
    records: _containers.RepeatedCompositeFieldContainer[Record]
    text: bytes
    def __init__(self, group: _Optional[int] = ..., part: _Optional[int] = ..., text: _Optional[bytes] = ..., ends: _Optional[_Iterable[int]] = ..., pairs: _Optional[_Union[Pairs, _Mapping]] = ..., records: _Optional[_Iterable[_Union[Record, _Mapping]]] = ..., drops: _Optional[_Iterable[_Union[Drop, _Mapping]]] = ..., done: _Optional[_Union[Done, _Mapping]] = ...) -> None: ...

class Rollout(_message.Message):
    __slots__ = ["head", "messages", "reward", "task"]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    head: Head
    messages: Content
    reward: float
    task: int
    def __init__(self, head: _Optional[_Union[Head, _Mapping]] = ..., messages: _Optional[_Union[Content, _Mapping]] = ..., reward: _Optional[float] = ..., task: _Optional[int] = ...) -> None: ...

class Sampling(_message.Message):
    __slots__ = ["processed", "temperature", "top_p"]
    PROCESSED_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    processed: bool
    temperature: float
    top_p: float
    def __init__(self, temperature: _Optional[float] = ..., top_p: _Optional[float] = ..., processed: bool = ...) -> None: ...

class Scale(_message.Message):
    __slots__ = ["graded", "high", "low", "rewards", "step"]
    GRADED_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    REWARDS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    graded: bool
    high: float
    low: float
    rewards: bool
    step: int
    def __init__(self, rewards: bool = ..., step: _Optional[int] = ..., low: _Optional[float] = ..., high: _Optional[float] = ..., graded: bool = ...) -> None: ...

class Site(_message.Message):
    __slots__ = ["call", "call_seq", "error", "hint", "hint_kind", "hint_source", "result", "target", "tool"]
    CALL_FIELD_NUMBER: _ClassVar[int]
    CALL_SEQ_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    HINT_KIND_FIELD_NUMBER: _ClassVar[int]
    HINT_SOURCE_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    call: int
    call_seq: int
    error: int
    hint: int
    hint_kind: HintKind
    hint_source: int
    result: int
    target: Target
    tool: int
    def __init__(self, call: _Optional[int] = ..., call_seq: _Optional[int] = ..., result: _Optional[int] = ..., target: _Optional[_Union[Target, str]] = ..., tool: _Optional[int] = ..., error: _Optional[int] = ..., hint: _Optional[int] = ..., hint_source: _Optional[int] = ..., hint_kind: _Optional[_Union[HintKind, str]] = ...) -> None: ...

class State(_message.Message):
    __slots__ = ["head", "messages", "task"]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    head: Head
    messages: Content
    task: int
    def __init__(self, head: _Optional[_Union[Head, _Mapping]] = ..., messages: _Optional[_Union[Content, _Mapping]] = ..., task: _Optional[int] = ...) -> None: ...

class Step(_message.Message):
    __slots__ = ["name", "raw", "type"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    RAW_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    name: int
    raw: int
    type: int
    def __init__(self, type: _Optional[int] = ..., name: _Optional[int] = ..., raw: _Optional[int] = ...) -> None: ...

class TokenIDs(_message.Message):
    __slots__ = ["values"]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, values: _Optional[_Iterable[int]] = ...) -> None: ...

class Tool(_message.Message):
    __slots__ = ["name", "raw"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    RAW_FIELD_NUMBER: _ClassVar[int]
    name: int
    raw: int
    def __init__(self, name: _Optional[int] = ..., raw: _Optional[int] = ...) -> None: ...

class ToolCall(_message.Message):
    __slots__ = ["arguments", "as_object", "extra", "id", "name", "parsed", "type"]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    AS_OBJECT_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARSED_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    arguments: int
    as_object: bool
    extra: _containers.RepeatedCompositeFieldContainer[Member]
    id: int
    name: int
    parsed: int
    type: int
    def __init__(self, id: _Optional[int] = ..., type: _Optional[int] = ..., name: _Optional[int] = ..., arguments: _Optional[int] = ..., parsed: _Optional[int] = ..., as_object: bool = ..., extra: _Optional[_Iterable[_Union[Member, _Mapping]]] = ...) -> None: ...

class ValidateRequest(_message.Message):
    __slots__ = ["builder", "config"]
    BUILDER_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    builder: str
    config: bytes
    def __init__(self, builder: _Optional[str] = ..., config: _Optional[bytes] = ...) -> None: ...

class ValidateResponse(_message.Message):
    __slots__ = ["findings"]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    findings: _containers.RepeatedCompositeFieldContainer[Finding]
    def __init__(self, findings: _Optional[_Iterable[_Union[Finding, _Mapping]]] = ...) -> None: ...

class Unit(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Severity(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Fidelity(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Sampled(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Form(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class PromptForm(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Train(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Target(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class HintKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class ContentPart(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
