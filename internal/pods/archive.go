package pods

// This file copies a run directory out of the coordinator.

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Pack writes a folder with its files as a compressed tar archive.
func Pack(w io.Writer, dir string) error {
	zipped := gzip.NewWriter(w)
	archive := tar.NewWriter(zipped)
	err := archive.AddFS(os.DirFS(dir))
	if err = errors.Join(err, archive.Close(), zipped.Close()); err != nil {
		return fmt.Errorf("packing %s: %w", dir, err)
	}
	return nil
}

// unpack writes the files of an archive into a folder, which it makes. What is cut off is an error.
func unpack(r io.Reader, dir string) error {
	zipped, err := gzip.NewReader(r)
	if err != nil {
		return fmt.Errorf("unpacking the run directory: %w", err)
	}
	archive := tar.NewReader(zipped)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			// The rest has the checksum of the whole.
			if _, err = io.Copy(io.Discard, zipped); err == nil {
				return nil
			}
		}
		if err != nil {
			return fmt.Errorf("unpacking the run directory: %w", err)
		}
		if !filepath.IsLocal(header.Name) {
			return fmt.Errorf("unpacking the run directory: %q leads out of it", header.Name)
		}
		if err := unpackOne(archive, header, filepath.Join(dir, header.Name)); err != nil {
			return fmt.Errorf("unpacking the run directory: %w", err)
		}
	}
}

func unpackOne(from io.Reader, header *tar.Header, path string) error {
	switch header.Typeflag {
	case tar.TypeDir:
		return os.MkdirAll(path, 0o755)
	case tar.TypeReg:
	default:
		return nil // such as the socket of a program
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, header.FileInfo().Mode().Perm()|0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from) //nolint:gosec // it comes from our own run
	return errors.Join(err, file.Close())
}
