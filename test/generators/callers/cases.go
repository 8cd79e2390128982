// Runs cases with the client that openapi-generator makes for Go, and prints the outcome of each.
package main

import (
	"caller/standin"
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"
)

type task struct {
	Name   string         `json:"name"`
	Call   string         `json:"call"`
	URL    string         `json:"url"`
	APIKey string         `json:"api_key"`
	Data   any    `json:"data"`
}

type outcome = map[string]any

func main() {
	text, err := os.ReadFile("cases.json")
	check(err)
	var tasks []task
	check(json.Unmarshal(text, &tasks))
	lines := json.NewEncoder(os.Stdout)
	for _, one := range tasks {
		result, answer, err := run(one)
		if err != nil {
			result = outcome{"error": failureOf(answer, err)}
		}
		result["name"] = one.Name
		check(lines.Encode(result))
	}
}

func run(one task) (outcome, *http.Response, error) {
	settings := standin.NewConfiguration()
	settings.Servers = standin.ServerConfigurations{{URL: one.URL}}
	client := standin.NewAPIClient(settings)
	known := context.WithValue(context.Background(), standin.ContextAccessToken, one.APIKey)
	switch one.Call {
	case "health":
		health, answer, err := client.HealthAPI.Health(context.Background()).Execute()
		return outcome{"data": health}, answer, err
	case "lookup":
		request := standin.NewLookupRequest(one.Data)
		found, answer, err := client.VaultAPI.Lookup(known).LookupRequest(*request).Execute()
		if err != nil {
			return nil, answer, err
		}
		return outcome{"data": found.Data}, answer, nil
	case "detokenize", "detokenize_lenient":
		return detokenize(client, known, one.Data, one.Call == "detokenize_lenient")
	}
	request := standin.NewTokenizeRequest(one.Data)
	tokens, answer, err := client.VaultAPI.Tokenize(known).TokenizeRequest(*request).Execute()
	if err != nil || one.Call == "tokenize" {
		return outcome{"tokens": tokens.GetData()}, answer, err
	}
	values, answer, err := detokenize(client, known, tokens.Data, false)
	if err == nil {
		values["tokens"] = tokens.Data
	}
	return values, answer, err
}

func detokenize(
	client *standin.APIClient, known context.Context, data any, lenient bool,
) (outcome, *http.Response, error) {
	call := client.VaultAPI.Detokenize(known).DetokenizeRequest(*standin.NewDetokenizeRequest(data))
	if lenient {
		call = call.Prefer("handling=lenient")
	}
	values, answer, err := call.Execute()
	if err != nil {
		return nil, answer, err
	}
	return outcome{"data": values.Data, "unapplied": values.Unapplied}, answer, nil
}

func failureOf(answer *http.Response, err error) outcome {
	var failure *standin.GenericOpenAPIError
	if answer == nil || !errors.As(err, &failure) {
		return outcome{"class": "network"}
	}
	return outcome{"status": answer.StatusCode, "body": string(failure.Body()), "text": err.Error()}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
