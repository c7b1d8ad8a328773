// A SavedModel loaded and run by the C++ functions that a model server calls: its warm-up requests, one after the other.
//
//     serve MODEL OUTPUTS THREADS CALLS [LIBRARY...]
//
// MODEL is a version of a SavedModel. All outputs of each request, in the order of their names, are written into OUTPUTS
// as records of TensorProto. THREADS is the number of threads of the session, 0 for TensorFlow's choice; CALLS is how
// often each request is run. LIBRARY is an operation library of tensorflow-text, of which the server has its own. Prints
// the milliseconds of loading, and of each request its signature and the milliseconds of its calls.
#include <chrono>
#include <iostream>
#include <map>

#include "google/protobuf/io/coded_stream.h"
#include "tensorflow/c/c_api.h"
#include "tensorflow/cc/saved_model/loader.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/io/record_reader.h"
#include "tensorflow/core/lib/io/record_writer.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/public/session.h"
using namespace tensorflow;

void Check(const absl::Status& status) {
  if (!status.ok()) { std::cerr << status.ToString() << "\n"; exit(1); }
}

double Milliseconds() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The fields of a message by number. In a PredictionLog all are messages, strings or bytes.
std::multimap<int, std::string> Fields(const std::string& bytes) {
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  std::multimap<int, std::string> fields;
  uint32_t size;
  for (uint32_t tag; (tag = input.ReadTag()) != 0;) {
    std::string field;
    if (!input.ReadVarint32(&size) || !input.ReadString(&field, size)) { std::cerr << "Bad record\n"; exit(1); }
    fields.emplace(tag >> 3, field);
  }
  return fields;
}

int main(int argc, char** argv) {
  const std::string model = argv[1], outputs_path = argv[2];
  for (int i = 5; i < argc; ++i) {
    TF_Status* status = TF_NewStatus();
    TF_LoadLibrary(argv[i], status);
    if (TF_GetCode(status) != TF_OK) { std::cerr << TF_Message(status) << "\n"; return 1; }
  }
  SessionOptions options;
  options.config.set_intra_op_parallelism_threads(atoi(argv[3]));
  options.config.set_inter_op_parallelism_threads(atoi(argv[3]));
  double start = Milliseconds();
  SavedModelBundle bundle;
  Check(LoadSavedModel(options, RunOptions(), model, {"serve"}, &bundle));
  std::cout << "load " << Milliseconds() - start << "\n";

  std::unique_ptr<RandomAccessFile> requests;
  std::unique_ptr<WritableFile> results;
  Check(Env::Default()->NewRandomAccessFile(model + "/assets.extra/tf_serving_warmup_requests", &requests));
  Check(Env::Default()->NewWritableFile(outputs_path, &results));
  io::SequentialRecordReader reader(requests.get());
  io::RecordWriter writer(results.get());
  for (tstring record; reader.ReadRecord(&record).ok();) {
    // PredictionLog.predict_log = 6, PredictLog.request = 1, PredictRequest.model_spec = 1 and inputs = 2.
    auto request = Fields(Fields(Fields(record).find(6)->second).find(1)->second);
    const std::string name = Fields(request.find(1)->second).find(3)->second;  // ModelSpec.signature_name
    const SignatureDef& signature = bundle.meta_graph_def.signature_def().at(name);
    std::vector<std::pair<std::string, Tensor>> inputs;
    for (auto [input, end] = request.equal_range(2); input != end; ++input) {
      auto entry = Fields(input->second);
      TensorProto proto;
      Tensor tensor;
      if (!proto.ParseFromString(entry.find(2)->second) || !tensor.FromProto(proto)) return 1;
      inputs.emplace_back(signature.inputs().at(entry.find(1)->second).name(), tensor);
    }
    std::vector<std::string> fetches;
    const std::map<std::string, TensorInfo> sorted(signature.outputs().begin(), signature.outputs().end());
    for (const auto& [key, info] : sorted) fetches.push_back(info.name());
    std::vector<Tensor> found;
    std::cout << name;
    for (int call = 0; call < atoi(argv[4]); ++call) {
      start = Milliseconds();
      Check(bundle.session->Run(inputs, fetches, {}, &found));
      std::cout << " " << Milliseconds() - start;
    }
    std::cout << std::endl;
    for (const Tensor& tensor : found) {
      TensorProto proto;
      tensor.AsProtoField(&proto);
      Check(writer.WriteRecord(proto.SerializeAsString()));
    }
  }
  Check(writer.Close());
  Check(results->Close());
}
