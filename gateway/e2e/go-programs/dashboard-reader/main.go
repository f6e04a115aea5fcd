// Reads a dashboard from stdin with Grafana's foundation SDK, which refuses fields that are unknown, missing or of another type.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

func main() {
	if err := run(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(input io.Reader) error {
	text, err := io.ReadAll(input)
	if err != nil {
		return err
	}
	kinds := map[string]bool{"row": true}
	for _, kind := range []variants.PanelcfgConfig{stat.VariantConfig(), table.VariantConfig(), timeseries.VariantConfig()} {
		cog.NewRuntime().RegisterPanelcfgVariant(kind)
		kinds[kind.Identifier] = true
	}
	cog.NewRuntime().RegisterDataqueryVariant(prometheus.VariantConfig())
	faults := []error{faultOf((&dashboard.Dashboard{}).UnmarshalJSONStrict(text))}

	// The SDK is lenient with panels of kinds that are not registered, and with the settings of fields.
	var read struct {
		Panels []struct {
			Type, Title string
			FieldConfig json.RawMessage
		}
	}
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	for _, panel := range read.Panels {
		if !kinds[panel.Type] {
			faults = append(faults, fmt.Errorf("%s: no schema for the panel type %q", panel.Title, panel.Type))
		}
		if err := faultOf((&dashboard.FieldConfigSource{}).UnmarshalJSONStrict(panel.FieldConfig)); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", panel.Title, err))
		}
	}
	return errors.Join(faults...)
}

// The SDK returns an empty list where there is no fault.
func faultOf(err error) error {
	var list cog.BuildErrors
	if errors.As(err, &list) && len(list) == 0 {
		return nil
	}
	return err
}
