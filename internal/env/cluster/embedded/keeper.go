package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// This file keeps the members alive whose JoinGroup or SyncGroup is parked (see parked.go), as Kafka does. It sends
// heartbeats for them, on a connection inside this process. Every broker has this connection from its start and
// keeps it while it is stopped: sessions continue in kfake meanwhile.

// keepPeriod is the interval of the heartbeats. It is a fraction of the shortest session.
const keepPeriod = minSessionTimeout / 4

// absentLimit is how many times in a row a member must be missing from its group until kfake is considered never to
// answer its request. Once is not enough: kfake may have read a JoinGroup and not handled it yet.
const absentLimit = 8

// keep sends heartbeats for waiting members until stop is closed.
func (e *Kafka) keep(stop <-chan struct{}) {
	ticker := time.NewTicker(keepPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		for group, requests := range e.parked.groups() {
			if err := e.keepGroup(group, requests); err != nil && !errors.Is(err, io.ErrClosedPipe) {
				e.log.Error().Err(err).Str("group", group).Msg("embedded Kafka: keeping members alive that wait for a rebalance")
			}
		}
	}
}

func (e *Kafka) keepGroup(group string, requests []*parked) error {
	info := e.kafka.GroupInfo(group)
	gate := e.gates[e.kafka.CoordinatorFor(group)]
	for _, p := range requests {
		if p.member == "" && p.instance == "" {
			continue // the group does not know the member, so it cannot remove it
		}
		member, found := memberOf(info, p)
		if !found {
			// When Kafka removes a waiting member, it answers UNKNOWN_MEMBER_ID (removeMemberAndUpdateClassicGroup).
			// kfake answers nothing: the client gets that error when it asks again.
			if p.absent++; p.absent == absentLimit {
				e.parked.end(p)
				p.conn.hangUp()
			}
			continue
		}
		p.absent = 0
		if !e.parked.hasSession(group, member) {
			continue // its first JoinGroup is parked, nothing expels it, and a heartbeat would begin a session that can end
		}
		if err := gate.heartbeat(group, member, info.Epoch); err != nil {
			return err
		}
	}
	return nil
}

// memberOf returns the id that a group uses for the member that sent a request.
func memberOf(info *kfake.GroupInfo, p *parked) (id string, found bool) {
	if info == nil {
		return "", false
	}
	for _, m := range info.Members {
		if m.MemberID == p.member || p.instance != "" && m.InstanceID != nil && *m.InstanceID == p.instance {
			return m.MemberID, true
		}
	}
	return "", false
}

// heartbeat renews a member's session. The broker's answer does not matter: it is a refusal if the member was
// answered or removed meanwhile.
func (g *gate) heartbeat(group, member string, generation int32) error {
	request := kmsg.NewPtrHeartbeatRequest()
	request.Group, request.MemberID, request.Generation = group, member, generation
	if err := roundTrip(g.inside, request); err != nil {
		return fmt.Errorf("sending a heartbeat for member %s: %w", member, err)
	}
	return nil
}

// roundTrip sends a request and reads its answer. It has no deadline: kfake answers these requests at once, and
// closing the gate ends the wait.
func roundTrip(conn net.Conn, request kmsg.Request) error {
	if _, err := conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, request, 0)); err != nil {
		return err
	}
	size := make([]byte, 4)
	if _, err := io.ReadFull(conn, size); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(size)))
	return err
}
