// Verifies what the gateway writes, by the packages of Go's checksum database, which are not ours:
//
//	sumdb-verifier log KEY DIRECTORY [CHECKPOINT...]    an exported log, and that it went on from each of the checkpoints
//	sumdb-verifier proofs KEY < FILE                    C2SP tlog-proofs; prints the records
package main

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// C2SP tlog-tiles: a tile has 2^8 hashes, a bundle as many entries.
const (
	height = 8
	width  = 1 << height
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "refused:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("needs a command and a key")
	}
	verifier, err := note.NewVerifier(args[1])
	if err != nil {
		return err
	}
	switch {
	case args[0] == "log" && len(args) > 2:
		return verifyLog(verifier, args[2], args[3:])
	case args[0] == "proofs" && len(args) == 2:
		return verifyProofs(verifier, os.Stdin)
	}
	return errors.New("needs the command log with a directory, or proofs")
}

func verifyLog(verifier note.Verifier, directory string, earlier []string) error {
	tree, unknown, err := readCheckpoint(verifier, filepath.Join(directory, "checkpoint"))
	if err != nil {
		return err
	}
	hashes := tlog.TileHashReader(tree, tiles{directory})
	root, err := tlog.TreeHash(tree.N, hashes)
	if err != nil {
		return err
	}
	if root != tree.Hash {
		return errors.New("the tiles have another root than the checkpoint")
	}
	fmt.Printf("root of %d, %d unknown signatures\n", tree.N, unknown)
	if err := verifyEntries(tree, hashes, directory); err != nil {
		return err
	}
	fmt.Printf("entries %d\n", tree.N)
	for _, file := range earlier {
		old, _, err := readCheckpoint(verifier, file)
		if err != nil {
			return err
		}
		proof, err := tlog.ProveTree(tree.N, old.N, hashes)
		if err != nil {
			return err
		}
		if err := tlog.CheckTree(proof, tree.N, tree.Hash, old.N, old.Hash); err != nil {
			return fmt.Errorf("the log did not go on from %s: %w", file, err)
		}
		fmt.Printf("goes on from %d\n", old.N)
	}
	return nil
}

// Checks that each entry is a leaf.
func verifyEntries(tree tlog.Tree, hashes tlog.HashReader, directory string) error {
	for first := int64(0); first < tree.N; first += width {
		tile := tlog.Tile{H: height, L: -1, N: first / width, W: int(min(width, tree.N-first))}
		bundle, err := os.ReadFile(pathOf(directory, tile))
		if err != nil {
			return err
		}
		for index := first; index < first+int64(tile.W); index++ {
			if len(bundle) < 2 || len(bundle)-2 < int(binary.BigEndian.Uint16(bundle)) {
				return fmt.Errorf("%s ends before entry %d", tile.Path(), index)
			}
			end := 2 + int(binary.BigEndian.Uint16(bundle))
			leaf := tlog.RecordHash(bundle[2:end])
			bundle = bundle[end:]
			proof, err := tlog.ProveRecord(tree.N, index, hashes)
			if err != nil {
				return err
			}
			if err := tlog.CheckRecord(proof, tree.N, tree.Hash, index, leaf); err != nil {
				return fmt.Errorf("entry %d: %w", index, err)
			}
		}
		if len(bundle) > 0 {
			return fmt.Errorf("%s has more than its entries", tile.Path())
		}
	}
	return nil
}

const proofHead = "c2sp.org/tlog-proof@v1\n"

func verifyProofs(verifier note.Verifier, in io.Reader) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	parts := strings.Split(string(text), proofHead)
	if parts[0] != "" || len(parts) == 1 {
		return errors.New("is no tlog-proof")
	}
	for _, part := range parts[1:] {
		record, err := verifyProof(verifier, part)
		if err != nil {
			return err
		}
		os.Stdout.Write(record)
	}
	return nil
}

// Verifies a proof: the lines extra, index and hashes, an empty line and the checkpoint. Returns what stands behind extra.
func verifyProof(verifier note.Verifier, text string) ([]byte, error) {
	head, checkpoint, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(head, "\n")
	if len(lines) < 2 || !strings.HasPrefix(lines[0], "extra ") || !strings.HasPrefix(lines[1], "index ") {
		return nil, errors.New("is no tlog-proof with extra and index")
	}
	record, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(lines[0], "extra "))
	if err != nil {
		return nil, err
	}
	index, err := strconv.ParseInt(strings.TrimPrefix(lines[1], "index "), 10, 64)
	if err != nil {
		return nil, err
	}
	proof := make(tlog.RecordProof, len(lines)-2)
	for i, line := range lines[2:] {
		if proof[i], err = tlog.ParseHash(line); err != nil {
			return nil, err
		}
	}
	tree, _, err := parseCheckpoint(verifier, []byte(checkpoint))
	if err != nil {
		return nil, err
	}
	return record, tlog.CheckRecord(proof, tree.N, tree.Hash, index, tlog.RecordHash(record))
}

func readCheckpoint(verifier note.Verifier, file string) (tlog.Tree, int, error) {
	bytes, err := os.ReadFile(file)
	if err != nil {
		return tlog.Tree{}, 0, err
	}
	return parseCheckpoint(verifier, bytes)
}

// Returns also how many signatures are of keys that are not known.
func parseCheckpoint(verifier note.Verifier, bytes []byte) (tree tlog.Tree, unknown int, err error) {
	signed, err := note.Open(bytes, note.VerifierList(verifier))
	if err != nil {
		return tree, 0, err
	}
	lines := strings.Split(signed.Text, "\n")
	if len(lines) != 4 || lines[0] != verifier.Name() {
		return tree, 0, errors.New("is no checkpoint of this log")
	}
	if tree.N, err = strconv.ParseInt(lines[1], 10, 64); err != nil {
		return tree, 0, err
	}
	tree.Hash, err = tlog.ParseHash(lines[2])
	return tree, len(signed.UnverifiedSigs), err
}

// The tiles in a directory, as tlog reads them.
type tiles struct{ directory string }

func (t tiles) Height() int { return height }

func (t tiles) ReadTiles(wanted []tlog.Tile) ([][]byte, error) {
	data := make([][]byte, len(wanted))
	for i, tile := range wanted {
		bytes, err := os.ReadFile(pathOf(t.directory, tile))
		if err != nil {
			return nil, err
		}
		data[i] = bytes
	}
	return data, nil
}

func (t tiles) SaveTiles([]tlog.Tile, [][]byte) {}

// C2SP tlog-tiles leaves out the height that tlog has in its paths, and says entries for data.
func pathOf(directory string, tile tlog.Tile) string {
	path := strings.TrimPrefix(tile.Path(), "tile/8/")
	return filepath.Join(directory, "tile", strings.Replace(path, "data/", "entries/", 1))
}
