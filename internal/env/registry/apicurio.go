package registry

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// apicurio adds the paths of an Apicurio registry to those of Confluent's API: the same API below its own path, and of
// its core API, versions 2 and 3, what deserializers ask for: one of the known schemas by its id, and the schemas that
// it refers to, which are none. A schema has one id here, as content and as version of an artifact.
func (r *Registry) apicurio(confluent http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", confluent)
	for _, version := range []string{"v6", "v7", "v8"} {
		path := "/apis/ccompat/" + version
		mux.Handle(path+"/", http.StripPrefix(path, confluent))
	}
	for _, version := range []string{"v2", "v3"} {
		for _, kind := range []string{"globalIds", "contentIds"} {
			path := "GET /apis/registry/" + version + "/ids/" + kind + "/{id}"
			mux.HandleFunc(path, r.content)
			mux.HandleFunc(path+"/references", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, "[]") // a client that has left needs no answer
			})
		}
	}
	return mux
}

// content answers with the text of a schema.
func (r *Registry) content(w http.ResponseWriter, request *http.Request) {
	id := request.PathValue("id")
	for _, known := range r.Known {
		if strconv.Itoa(known.ID) == id {
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Header().Set("X-Registry-Artifacttype", known.Type.String())
			_, _ = io.WriteString(w, known.Schema.Schema) // as above
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	fmt.Fprintf(w, `{"error_code":404,"status":404,"name":"ContentNotFoundException","title":"No content with id %q"}`, id)
}
