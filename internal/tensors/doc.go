// Package tensors stores batches: named arrays as safetensors files, and pre-tokenised rows as Parquet.
//
// A safetensors file is eight bytes of header length (little endian), a JSON object {name: {dtype, shape,
// data_offsets}}, and the arrays' bytes, row-major and little endian (https://huggingface.co/docs/safetensors). The
// package has its own writer and reader because both are small, and libraries lack two important properties:
//
//   - The same arrays produce the same bytes. Names are sorted, "__metadata__" comes first with sorted keys, nothing
//     else is in the header, and it is padded with spaces to a multiple of 8, so that every array of 8-byte elements
//     starts aligned. Within the data, wide elements come before narrow ones, as in the reference implementation, which
//     keeps all of them aligned.
//   - Files are untrusted. Open checks every length and offset against the file before it allocates memory: header
//     size, JSON depth, tensor count, shape products, and that the arrays cover the data without gaps or overlaps.
//
// Write writes to any io.Writer in one pass. A caller that needs a durable file writes a temporary file, then syncs
// and renames it.
//
// A ParquetWriter writes rows with the columns that its caller chooses, such as those that TRL's SFT trainer accepts as
// pre-tokenised.
package tensors
