// A caller of the client that openapi-generator makes for Go.
package main

import (
	"caller/standin"
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
)

func main() {
	settings := standin.NewConfiguration()
	settings.Servers = standin.ServerConfigurations{{URL: os.Getenv("STANDIN_URL")}}
	client := standin.NewAPIClient(settings)
	keyless := context.Background()
	known := context.WithValue(keyless, standin.ContextAccessToken, os.Getenv("STANDIN_API_KEY"))
	stranger := context.WithValue(keyless, standin.ContextAccessToken, "stk_wrong")

	text, err := os.ReadFile("data.json")
	check(err)
	var data any
	check(json.Unmarshal(text, &data))
	request := standin.NewTokenizeRequest(data)
	tokens, _, err := client.VaultAPI.Tokenize(known).TokenizeRequest(*request).Execute()
	check(err)
	back := standin.NewDetokenizeRequest(tokens.Data)
	values, _, err := client.VaultAPI.Detokenize(known).DetokenizeRequest(*back).Execute()
	check(err)

	number := standin.NewTokenizeRequest(map[string]any{"age": 7})
	_, _, err = client.VaultAPI.Tokenize(known).TokenizeRequest(*number).Execute()
	refused := modelOf[standin.InvalidType](err)
	_, _, err = client.VaultAPI.Tokenize(stranger).TokenizeRequest(*request).Execute()
	unauthorized := modelOf[standin.Unauthorized](err)

	healthy, _, err := client.HealthAPI.Health(keyless).Execute()
	check(err)
	alive, _, err := client.HealthAPI.Live(keyless).Execute()
	check(err)
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"tokens":       tokens.Data,
		"request_id":   tokens.RequestId,
		"client_id":    tokens.ClientId,
		"values":       values.Data,
		"status":       values.Status,
		"refused":      map[string]string{"error": refused.Error, "message": refused.Message},
		"unauthorized": map[string]string{"error": unauthorized.Error},
		"health": map[string]any{
			"status":    healthy.Status,
			"timestamp": healthy.Timestamp,
			"postgres":  healthy.Postgres,
			"version":   healthy.Version,
		},
		"live": alive.Status,
	}))
}

// The typed body of a refusal.
func modelOf[T any](err error) T {
	var failure *standin.GenericOpenAPIError
	if !errors.As(err, &failure) {
		log.Fatalf("no refusal: %v", err)
	}
	model, ok := failure.Model().(T)
	if !ok {
		log.Fatalf("another body: %s", failure.Body())
	}
	return model
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
