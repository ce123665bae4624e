// See device.h and settings.h.
#include "device.h"

#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "../launch.h"

namespace host {

namespace {

long number(const char* name, long otherwise) {
  const char* set = std::getenv(name);
  if (!set || !*set) return otherwise;
  char* end;
  const long value = std::strtol(set, &end, 10);
  if (*end || value < 0) stop((std::string(name) + " is `" + set + "`, which is not a number").c_str());
  return value;
}

const Limits* limits_of(int capability) {
  static const std::map<int, Limits> all = {
      {80, {2048, 32, 164 << 10, 163 << 10, 108}},
      {86, {1536, 16, 100 << 10, 99 << 10, 84}},
      {89, {1536, 24, 100 << 10, 99 << 10, 128}},
      {90, {2048, 32, 228 << 10, 227 << 10, 132}},
      {100, {2048, 32, 228 << 10, 227 << 10, 148}},
      {120, {1536, 24, 100 << 10, 99 << 10, 170}},
  };
  const auto found = all.find(capability);
  return found == all.end() ? nullptr : &found->second;
}

Settings read_settings() {
  Settings s;
  s.devices = static_cast<int>(number("TRIBUNAL_EMULATED_DEVICES", 1));
  s.capability = static_cast<int>(number("TRIBUNAL_EMULATED_SM", 90));
  const Limits* card = limits_of(s.capability);
  if (!card) stop("TRIBUNAL_EMULATED_SM is 80, 86, 89, 90, 100 or 120");
  s.multiprocessors = static_cast<int>(number("TRIBUNAL_EMULATED_MULTIPROCESSORS", card->multiprocessors));
  s.memory = static_cast<size_t>(number("TRIBUNAL_EMULATED_MEMORY", 1L << 30));
  const auto after = [](const char* name) { return std::getenv(name) ? number(name, 0) : -1; };
  s.lost_after = after("TRIBUNAL_EMULATED_LOST_AFTER");
  s.graph_bytes = static_cast<size_t>(number("TRIBUNAL_EMULATED_GRAPH_BYTES", 0));
  s.taken_after = after("TRIBUNAL_EMULATED_TAKEN_AFTER");
  s.forgotten_wait = after("TRIBUNAL_EMULATED_FORGOTTEN_WAIT");
  s.forgotten_aside = after("TRIBUNAL_EMULATED_FORGOTTEN_ASIDE");
  s.forgotten_edge = after("TRIBUNAL_EMULATED_FORGOTTEN_EDGE");
  s.driver = static_cast<int>(number("TRIBUNAL_EMULATED_DRIVER", CUDA_VERSION));
  s.hollow = std::getenv("TRIBUNAL_EMULATED_HOLLOW");
  const auto device = [](const char* name) { return std::getenv(name) ? static_cast<int>(number(name, 0)) : -1; };
  s.lost_device = device("TRIBUNAL_EMULATED_LOST_DEVICE");
  s.unequal_device = device("TRIBUNAL_EMULATED_UNEQUAL_DEVICE");
  s.small_device = device("TRIBUNAL_EMULATED_SMALL_DEVICE");
  s.late = static_cast<unsigned>(number("TRIBUNAL_EMULATED_LATE", 0));
  s.peers = number("TRIBUNAL_EMULATED_PEERS", 1) != 0;
  s.lying_peers = std::getenv("TRIBUNAL_EMULATED_LYING_PEERS");
  s.folded = std::getenv("TRIBUNAL_EMULATED_FOLDED");
  s.leaks = std::getenv("TRIBUNAL_EMULATED_LEAKS");
  const auto text = [](const char* name) { return std::string(std::getenv(name) ? std::getenv(name) : ""); };
  s.trace = text("TRIBUNAL_EMULATED_TRACE");
  s.wrong_kernel = text("TRIBUNAL_EMULATED_WRONG_KERNEL");
  s.hanging_kernel = text("TRIBUNAL_EMULATED_HANGING_KERNEL");
  s.wrong_early = std::getenv("TRIBUNAL_EMULATED_WRONG_EARLY");
  s.fault_after = number("TRIBUNAL_EMULATED_FAULT_AFTER", 0);
  return s;
}

// The current context of each host thread. Not thread_local: this library's thread-local storage is its kernels'
// shared memory.
pthread_key_t context_key() {
  static const pthread_key_t key = [] {
    pthread_key_t made;
    pthread_key_create(&made, nullptr);
    return made;
  }();
  return key;
}

}  // namespace

const Settings& settings() {
  static const Settings& read = *new Settings(read_settings());
  return read;
}

const Limits& limits() { return *limits_of(settings().capability); }

void say(const std::string& what) { std::fprintf(stderr, "emulated: %s\n", what.c_str()); }

Driver& driver() {
  static Driver& the = *new Driver;
  return the;
}

CUcontext current_context() { return static_cast<CUcontext>(pthread_getspecific(context_key())); }
void set_current(CUcontext context) { pthread_setspecific(context_key(), context); }

Device* device_of(CUdevice ordinal) {
  auto& all = driver().devices;
  return ordinal >= 0 && size_t(ordinal) < all.size() ? all[ordinal].get() : nullptr;
}

Device* current_device() {
  const CUcontext context = current_context();
  Device* device = context ? device_of(context->device) : nullptr;
  return device && device->retained > 0 ? device : nullptr;
}

CUresult refuse(const char* function, const std::string& why, CUresult code) {
  say(std::string(function) + ": " + why);
  return code;
}

static void run_some();

#ifdef HOST_TSAN
// While one lives, what is done is the stream's doing.
class StreamScope {
 public:
  explicit StreamScope(CUstream_st& stream) : back_(__tsan_get_current_fiber()), before_(Team::the().stream) {
    if (!stream.fiber) stream.fiber = __tsan_create_fiber(0);
    Team::the().stream = stream.blocks;
    __tsan_switch_to_fiber(stream.fiber, kOrdersNothing);
  }
  ~StreamScope() {
    __tsan_switch_to_fiber(back_, kOrdersNothing);
    Team::the().stream = before_;
  }
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  static constexpr unsigned kOrdersNothing = 1;
  void* back_;
  const void* before_;
};
#endif

static void push(CUstream_st& stream, Op op) {
#ifdef HOST_TSAN
  op.asked = std::make_shared<char>();
  __tsan_release(op.asked.get());
#endif
  stream.queue.push_back(std::move(op));
}

// The stream's next piece of work. What it waits for has happened.
static void do_next(CUstream_st& stream) {
#ifdef HOST_TSAN
  const StreamScope scope(stream);
#endif
  const Op op = std::move(stream.queue.front());
  stream.queue.pop_front();
#ifdef HOST_TSAN
  if (op.asked) __tsan_acquire(op.asked.get());
  if (op.after) __tsan_acquire(op.after.get());
#endif
  const Unseen unseen;  // but for what kernels and copies do
  if (op.act) op.act();
}

void reach(Mark& mark) {
  mark.done = true, mark.when = std::chrono::steady_clock::now();
#ifdef HOST_TSAN
  __tsan_release(&mark);
#endif
}

void seen([[maybe_unused]] const std::shared_ptr<Mark>& mark) {
#ifdef HOST_TSAN
  if (mark) __tsan_acquire(mark.get());
#endif
}

void add_work(CUstream_st& stream, Op op) {
  if (stream.capture) {
    Lane& lane = stream.capture->graph.lanes[stream.lane];
    lane.nodes.push_back({std::move(op), stream.lane, 0});
    lane.after[stream.lane] = lane.nodes.size();
    return;
  }
  stream.asked = false;
  push(stream, std::move(op));
  if (settings().late) run_some();
}

static void run_queue(CUstream stream, const Mark* mark) {
  if (stream->queue.empty()) return;
  DeviceMemory::Access access;
  while (!stream->queue.empty() && !(mark && mark->done)) {
    if (const auto after = stream->queue.front().after; after && !after->done) run_queue(after->stream, after.get());
    do_next(*stream);
  }
}

void run_until(CUstream stream, const Mark* mark) {
  run_queue(stream, mark);
#ifdef HOST_TSAN
  {
    const StreamScope scope(*stream);
    __tsan_release(stream);
  }
  __tsan_acquire(stream);
#endif
}

// One piece of the stream's work, unless it waits for another stream.
static bool run_one(CUstream_st& stream) {
  if (stream.queue.empty()) return false;
  if (const auto after = stream.queue.front().after; after && !after->done) return false;
  DeviceMemory::Access access;
  do_next(stream);
  return true;
}

// Those that were made, and the lanes of graphs.
static std::vector<CUstream> streams_of(const Device& device) {
  std::vector<CUstream> all(device.streams.begin(), device.streams.end());
  for (const auto& lane : device.lanes) all.push_back(lane.get());
  return all;
}

// What runs before anybody waits for it. By a seed: up to seven pieces of work of one stream of one device, both drawn;
// often none.
static void run_some() {
  static std::mt19937& draw = *new std::mt19937(settings().late);
  const auto& devices = driver().devices;
  if (settings().late <= devices.size()) {
    for (CUstream stream : streams_of(*devices[settings().late - 1])) run_queue(stream, nullptr);
    return;
  }
  if (draw() % 2) return;
  Device& device = *devices[draw() % devices.size()];
  const std::vector<CUstream> streams = streams_of(device);
  if (streams.empty()) return;
  CUstream_st& stream = *streams[draw() % streams.size()];
  for (unsigned left = draw() % 8; left && run_one(stream);) left--;
}

void run_everything(Device& device) {
  run_until(&device.null_stream, nullptr);
  run_until(&device.thread_stream, nullptr);
  for (CUstream stream : streams_of(device)) run_until(stream, nullptr);
}

void start_graph(CUstream_st& stream, const std::vector<Lane>& lanes) {
  if (lanes.size() == 1) {
    for (const Lane::Node& node : lanes[0].nodes) add_work(stream, node.op);
    return;
  }
  for (const auto& device : driver().devices) {  // those of a lost device have marks that are never reached
    const auto is_over = [&](const auto& lane) { return !device->lost && lane->queue.empty(); };
    device->lanes.erase(std::remove_if(device->lanes.begin(), device->lanes.end(), is_over), device->lanes.end());
  }
  const auto start = std::make_shared<Mark>(Mark{&stream});
  push(stream, {[start] { reach(*start); }, nullptr});
  // A mark behind each node that another lane waits for, and behind the last one.
  std::vector<std::map<size_t, std::shared_ptr<Mark>>> marks(lanes.size());
  std::vector<CUstream> made;
  for (size_t i = 0; i < lanes.size(); i++) {
    Device& device = *driver().devices[lanes[i].device];
    device.lanes.push_back(std::make_unique<CUstream_st>());
    made.push_back(device.lanes.back().get());
    made[i]->device = lanes[i].device;
#ifdef HOST_TSAN
    made[i]->blocks = &device;
#endif
    for (const Lane& other : lanes)
      for (const Lane::Node& node : other.nodes)
        if (node.lane == i) marks[i].try_emplace(node.before, std::make_shared<Mark>(Mark{made[i]}));
    marks[i].try_emplace(lanes[i].nodes.size(), std::make_shared<Mark>(Mark{made[i]}));
  }
  for (size_t i = 0; i < lanes.size(); i++) {
    auto& queue = made[i]->queue;
    queue.push_back({nullptr, start});
    for (size_t n = 0; n <= lanes[i].nodes.size(); n++) {
      if (const auto mark = marks[i].find(n); mark != marks[i].end())
        queue.push_back({[mark = mark->second] { reach(*mark); }, nullptr});
      if (n == lanes[i].nodes.size()) break;
      const Lane::Node& node = lanes[i].nodes[n];
      queue.push_back(node.lane == i ? node.op : Op{nullptr, marks[node.lane].at(node.before)});
    }
    stream.queue.push_back({nullptr, marks[i].at(lanes[i].nodes.size())});
  }
  stream.asked = false;
  if (settings().late) run_some();
}

bool count_launch(Device& device) {
  const Settings& s = settings();
  if (device.launches == s.taken_after) DeviceMemory::the().take_rest(device.index);
  const bool may_be_lost = s.lost_after >= 0 && (s.lost_device < 0 || s.lost_device == device.index);
  if (!may_be_lost || device.launches < s.lost_after) {
    device.launches++;
    return true;
  }
  say("device " + std::to_string(device.index) + " is lost after " + std::to_string(device.launches) + " launches");
  device.lost = true;
  device.null_stream.queue.clear(), device.thread_stream.queue.clear();
  for (CUstream stream : streams_of(device)) stream->queue.clear();
  return false;
}

CUresult refuse_in_capture(Device& device, const char* function) {
  for (CUstream stream : device.streams) {
    if (!stream->capture || stream->capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
    if (stream->capture->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
        stream->capture->captured_by != std::this_thread::get_id())
      continue;
    stream->capture->broken = true;
    return refuse(function, "a stream is being captured", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  return CUDA_SUCCESS;
}

}  // namespace host
