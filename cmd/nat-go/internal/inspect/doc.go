// Package inspect examines inputs and configurations before a run.
//
// A Report describes how a user's files are read, what they contain, which records each builder would make from them,
// and which builder and row format suit them. `nat-go inspect`, `nat-go init` and a run without a configuration all use
// it. Check examines the inputs, tokenizer and programs that a configuration names, so that `validate` finds problems
// that would make a run fail. A Catalog finds and describes the builders that the user names, which are built in or
// belong to a plugin or a program. cachedTokenizer and near find models' tokenizers in folders and in Hugging Face's
// cache, without downloading anything.
package inspect
