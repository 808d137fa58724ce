package config

// Eval is the part of NAT's section `eval` that describes the evaluation output and its location. nat-go accepts the
// rest of the section unchecked. No key is required, because --from can name the input instead.
type Eval struct {
	General    EvalGeneral    `yaml:"general" nullable:"true" open:"true"`
	Evaluators map[string]any `yaml:"evaluators" nullable:"true" doc:"NAT's evaluators by name"`
}

// Dir returns the folder to which NAT writes with these settings.
func (g *EvalGeneral) Dir() string {
	if g.Output != nil && g.Output.Dir != "" {
		return g.Output.Dir
	}
	return g.OutputDir
}

// EvalGeneral is `eval.general`.
type EvalGeneral struct {
	MaxConcurrency       int          `yaml:"max_concurrency" default:"8" validate:"gte=1" doc:"items evaluated at once"`
	WorkflowAlias        string       `yaml:"workflow_alias" nullable:"true"`
	OutputDir            string       `yaml:"output_dir" default:"./.tmp/nat/examples/default/" doc:"output folder, unless output.dir is set"`
	Output               *EvalOutput  `yaml:"output" open:"true"`
	Dataset              *EvalDataset `yaml:"dataset"`
	ValidateLLMEndpoints bool         `yaml:"validate_llm_endpoints" default:"false"`
	PerInputUserID       bool         `yaml:"per_input_user_id" default:"true"`
	Profiler             any          `yaml:"profiler"`
}

// EvalOutput is `eval.general.output`.
type EvalOutput struct {
	Dir                          string         `yaml:"dir" nullable:"true" doc:"folder that holds workflow_output.json"`
	RemoteDir                    string         `yaml:"remote_dir" nullable:"true"`
	CustomPreEvalProcessFunction string         `yaml:"custom_pre_eval_process_function" nullable:"true"`
	CustomScripts                any            `yaml:"custom_scripts"`
	S3                           any            `yaml:"s3"`
	Cleanup                      bool           `yaml:"cleanup" default:"true" doc:"NAT empties the folder before it starts"`
	JobManagement                *JobManagement `yaml:"job_management"`
	StepFilter                   []string       `yaml:"workflow_output_step_filter" nullable:"true" validate:"dive,oneof=LLM_START LLM_END LLM_NEW_TOKEN TOOL_START TOOL_END WORKFLOW_START WORKFLOW_END TASK_START TASK_END TTC_START TTC_END FUNCTION_START FUNCTION_END CUSTOM_START CUSTOM_END SPAN_START SPAN_CHUNK SPAN_END" doc:"event types that NAT keeps; an empty list keeps all, an unset one keeps LLM_END and TOOL_END"`
	WriteATIF                    bool           `yaml:"write_atif_workflow_output" default:"false"`
}

// JobManagement is `eval.general.output.job_management`.
type JobManagement struct {
	AppendJobID    bool   `yaml:"append_job_id_to_output_dir" default:"false" doc:"one sub-folder jobs/job_<id> per run"`
	MaxJobs        int    `yaml:"max_jobs" default:"0" validate:"gte=0"`
	EvictionPolicy string `yaml:"eviction_policy" default:"time_created" validate:"oneof=time_created time_modified"`
}

// EvalDataset is `eval.general.dataset`. Unknown keys are errors, as in NAT.
type EvalDataset struct {
	Type           string        `yaml:"_type" alias:"type" nullable:"true" validate:"omitempty,oneof=json jsonl csv parquet xls custom"`
	FilePath       any           `yaml:"file_path" doc:"the questions"`
	IDKey          string        `yaml:"id_key" default:"id" doc:"key of an entry's id in the output"`
	Structure      EvalStructure `yaml:"structure"`
	Filter         any           `yaml:"filter"`
	S3             any           `yaml:"s3"`
	RemoteFilePath string        `yaml:"remote_file_path" nullable:"true"`
	Function       string        `yaml:"function" nullable:"true" doc:"function that loads a custom data set"`
	Kwargs         any           `yaml:"kwargs" doc:"arguments of that function"`
}

// EvalStructure is `eval.general.dataset.structure`, which names the keys of an entry in the output.
type EvalStructure struct {
	Disable               bool   `yaml:"disable" default:"false" doc:"if true, NAT writes answers without ids and steps, which nat-go can't use"`
	QuestionKey           string `yaml:"question_key" default:"question"`
	AnswerKey             string `yaml:"answer_key" default:"answer"`
	GeneratedAnswerKey    string `yaml:"generated_answer_key" default:"generated_answer"`
	TrajectoryKey         string `yaml:"trajectory_key" default:"intermediate_steps"`
	ExpectedTrajectoryKey string `yaml:"expected_trajectory_key" default:"expected_intermediate_steps"`
}
