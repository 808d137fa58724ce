// Package customizer is the trainer adapter for NeMo Customizer v1: entity store, data store with a Hugging Face
// compatible interface, customization jobs, deployment. It reads NAT's nemo_customizer_trainer_adapter config.
//
// The requests, their order and their decoded bodies are the ones that NAT 1.9.0 sends with its own client libraries,
// as recorded, except where NAT is wrong:
//
//   - Each submission gets a data set of its own, <dataset_name>-<key>, unless dataset_version is "reuse": NAT gives
//     every run the same name, so that a second run overwrites the files a first job is still reading. If the answer to
//     "create the job" is lost, the job of the submission is found by this name.
//   - The request that creates a job is not repeated after a lost answer. NAT's client repeats it and makes two jobs.
//   - Failures are reported: a token that is refused, a data set that could not be registered, a missing output model
//     when deployment was asked for. NAT continues, and reports success at the end.
//   - 409 means "exists" and is not retried.
//   - With an empty token no Authorization header is sent; every host can have a token of its own.
//   - training_type sft takes demonstration rows and sends no dpo block; preference rows are refused. lora can carry
//     its rank.
//   - Progress may be null, and doesn't show whether the job has ended: NAT's wait fails with a TypeError if it is
//     null, and so does every wait that reaches the limit on failed status requests. Here, that limit has an error of
//     its own.
//   - A field of an unexpected type counts as missing if a job can be followed without it.
//   - The deployment is polled by its name, not looked for on the first page of a list; canceled ends the wait; names
//     contain no "_", which Kubernetes does not allow.
//
// A file is uploaded the way the data store asks for: inside the commit, or over LFS (basic or multipart), streamed
// either way. Xet is not offered: the data store does not support it, and NAT's client, which uses it without asking if
// a newer huggingface_hub is installed, can't submit.
package customizer
