// Package samples reads records as a service's owner has them, and makes records of a run from them: each gets an id of
// its own at the place where the service looks for one, and keeps everything else byte for byte. It knows neither how
// records are planned nor how they are sent.
package samples
