// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"minik8s.io/minik8s/pkg/addons/workflows/internal/dsl"
	"minik8s.io/minik8s/pkg/addons/workflows/internal/engine"
)

// grpcPort is where a service is that says no port.
const grpcPort = 80

// grpc calls a method with one message and one answer, in clear text. What the messages have is asked of the server by reflection;
// the document that the call names is not read.
func (c *Caller) grpc(ctx context.Context, arguments map[string]any, a engine.Action) (any, error) {
	if c.Dial == nil {
		return nil, engine.NewError(engine.Configuration, "there is no gRPC here")
	}
	service, _ := arguments["service"].(map[string]any)
	port, ok := service["port"].(int)
	if !ok {
		port = grpcPort
	}
	connection, err := grpc.NewClient("passthrough:///"+net.JoinHostPort(text(service, "host"), strconv.Itoa(port)),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxBytes)),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return c.Dial(ctx, "tcp", address) }))
	if err != nil {
		return nil, engine.NewError(engine.Configuration, "%v", err)
	}
	defer func() { _ = connection.Close() }()
	method, err := reflectMethod(ctx, connection, text(service, "name"), text(arguments, "method"))
	if err != nil {
		return nil, grpcError(err)
	}
	in, out := dynamicpb.NewMessage(method.Input()), dynamicpb.NewMessage(method.Output())
	if given, ok := arguments["arguments"]; ok {
		encoded, err := json.Marshal(given)
		if err != nil {
			return nil, engine.NewError(engine.Validation, "the arguments are not JSON: %v", err)
		}
		if err := protojson.Unmarshal(encoded, in); err != nil {
			return nil, engine.NewError(engine.Validation, "the arguments are not a %s: %v", method.Input().FullName(), err)
		}
	}
	ctx = metadata.AppendToOutgoingContext(ctx, KeyHeader, a.Key)
	if err := connection.Invoke(ctx, fmt.Sprintf("/%s/%s", method.Parent().FullName(), method.Name()), in, out); err != nil {
		return nil, grpcError(err)
	}
	encoded, err := protojson.Marshal(out)
	if err != nil {
		return nil, err
	}
	return dsl.Decode(encoded)
}

// reflectMethod asks a server what a method of it takes and answers.
func reflectMethod(ctx context.Context, connection *grpc.ClientConn, service, method string) (protoreflect.MethodDescriptor, error) {
	ctx, cancel := context.WithCancel(ctx) // ends the stream
	defer cancel()
	stream, err := reflectionv1.NewServerReflectionClient(connection).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	set := &descriptorpb.FileDescriptorSet{}
	asks := []*reflectionv1.ServerReflectionRequest{{
		MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service},
	}}
	for len(asks) > 0 {
		if err := stream.Send(asks[0]); err != nil {
			return nil, err
		}
		asks = asks[1:]
		answer, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		if e := answer.GetErrorResponse(); e != nil {
			return nil, status.Errorf(codes.Code(e.ErrorCode), "asking the server for %s: %s", service, e.ErrorMessage) //nolint:gosec // a code is small
		}
		for _, encoded := range answer.GetFileDescriptorResponse().GetFileDescriptorProto() {
			file := &descriptorpb.FileDescriptorProto{}
			if err := proto.Unmarshal(encoded, file); err != nil {
				return nil, err
			}
			if known[file.GetName()] {
				continue
			}
			known[file.GetName()] = true
			set.File = append(set.File, file)
			for _, needed := range file.Dependency {
				if !known[needed] {
					asks = append(asks, &reflectionv1.ServerReflectionRequest{
						MessageRequest: &reflectionv1.ServerReflectionRequest_FileByFilename{FileByFilename: needed},
					})
				}
			}
		}
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		return nil, err
	}
	descriptor, err := files.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return nil, err
	}
	s, ok := descriptor.(protoreflect.ServiceDescriptor)
	if !ok {
		return nil, engine.NewError(engine.Configuration, "%s is not a service", service)
	}
	m := s.Methods().ByName(protoreflect.Name(method))
	switch {
	case m == nil:
		return nil, engine.NewError(engine.Configuration, "the service %s has no method %q", service, method)
	case m.IsStreamingClient() || m.IsStreamingServer():
		return nil, engine.NewError(engine.Configuration, "the method %s streams, which is not supported", m.FullName())
	}
	return m, nil
}

// grpcError is what a status of gRPC comes to.
func grpcError(err error) error {
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	problem := engine.NewError(engine.Communication, "%s", s.Message())
	switch s.Code() {
	case codes.DeadlineExceeded:
		return engine.NewError(engine.Timeout, "%s", s.Message())
	case codes.Unauthenticated:
		return engine.NewError(engine.Authentication, "%s", s.Message())
	case codes.PermissionDenied:
		return engine.NewError(engine.Authorization, "%s", s.Message())
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange:
		problem.Status = http.StatusBadRequest
	case codes.NotFound:
		problem.Status = http.StatusNotFound
	case codes.AlreadyExists, codes.Aborted:
		problem.Status = http.StatusConflict
	case codes.ResourceExhausted:
		problem.Status = http.StatusTooManyRequests
	case codes.Unimplemented:
		problem.Status = http.StatusNotImplemented
	case codes.Unavailable:
		problem.Status = http.StatusServiceUnavailable
	}
	problem.Title = s.Code().String()
	return problem
}
