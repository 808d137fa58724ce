// Package inspect examines inputs and configurations before a run.
//
// It reports how a user's files are read, their content, the records of each builder, and the builder and row format
// that fit them. `nat-go inspect`, `nat-go init` and a run without a configuration all use the same Report. Check
// examines the things that a configuration refers to outside itself - inputs, tokenizer, programs - so that `validate`
// finds what would make a run fail. A Catalog finds the builders that the user names - built in, a plugin's, a
// program's - and describes them. cachedTokenizer and near find models' tokenizers in folders and in Hugging Face's
// cache; nothing is downloaded.
package inspect
