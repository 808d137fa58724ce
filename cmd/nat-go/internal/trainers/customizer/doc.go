// Package customizer is the trainer adapter for NeMo Customizer v1, with its entity store, data store with a Hugging
// Face compatible interface, customization jobs and deployment. It reads NAT's nemo_customizer_trainer_adapter config.
//
// The requests, their order and their decoded bodies are the same as those that NAT 1.9.0 sends with its own client
// libraries, as recorded, with the following exceptions:
//
//   - Each submission gets its own data set, <dataset_name>-<key>, unless dataset_version is "reuse". NAT gives every
//     data set the same name, so a second run overwrites files that an earlier job is still reading. If the response
//     to "create the job" is lost, the submission's job is found by this name.
//   - The request that creates a job is not repeated if the response is lost. NAT's client repeats it, which makes
//     two jobs.
//   - Failures such as a rejected token, a data set that could not be registered, or a missing output model when
//     deployment was requested are reported as errors. NAT continues and reports success.
//   - 409 means "exists" and is not retried.
//   - With an empty token no Authorization header is sent; every host can have its own token.
//   - training_type sft accepts demonstration rows and sends no dpo block; preference rows are rejected. lora can
//     include its rank.
//   - Progress may be null, and doesn't show whether the job has ended. NAT's wait fails with a TypeError if it is
//     null, and so does every wait that reaches the limit on failed status requests. Here, that limit has its own
//     error.
//   - A field of an unexpected type counts as missing if a job can be followed without it.
//   - The deployment is requested by name instead of searched for on the first page of a list; canceled ends the wait;
//     names don't contain "_", which Kubernetes does not allow.
//
// A file is uploaded in the way that the data store requests, either inside the commit or over LFS (basic or
// multipart), and streamed in both cases. Xet is not offered, because the data store does not support it. NAT's
// client uses it whenever a newer huggingface_hub is installed, and then can't submit.
package customizer
