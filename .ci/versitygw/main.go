// Command versitygw serves a folder over the S3 protocol on the loopback interface, for tests: versitygw FOLDER
// ADDRESS. It takes its credentials from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. It exits when its standard input
// is closed.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

func main() {
	if err := serve(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(folder, address string) error {
	files, beside := filepath.Join(folder, "files"), filepath.Join(folder, "beside")
	for _, dir := range []string{files, beside} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	about, err := meta.NewSideCar(beside)
	if err != nil {
		return err
	}
	be, err := posix.New(files, about, posix.PosixOpts{SideCarDir: beside, ValidateBucketNames: true})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	return embedgw.RunVersityGW(ctx, be, &embedgw.Config{
		RootUserAccess: os.Getenv("AWS_ACCESS_KEY_ID"), RootUserSecret: os.Getenv("AWS_SECRET_ACCESS_KEY"),
		Ports: []string{address}, Region: "us-east-1", Quiet: true, KeepAlive: true, IAMCacheDisable: true,
		MaxConnections: 1000, MaxRequests: 1000, MultipartMaxParts: 10_000,
	})
}
