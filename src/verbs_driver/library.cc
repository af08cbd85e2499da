#include "verbs_driver/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "os/error_numbers.h"

namespace weft::verbs_driver {
namespace {

/// Looks names up in one library; the first that is missing is remembered.
class Loader {
 public:
  explicit Loader(const char* name) : name_(name), handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) {
      const char* const why = dlerror();
      problem_ = fmt::format("{} cannot be loaded ({}); install it, or run under weft exec", name_,
                             why != nullptr ? why : "no reason given");
    }
  }

  template <class Function>
  void take(Function& to, const char* symbol) {
    void* const found = handle_ != nullptr ? dlsym(handle_, symbol) : nullptr;
    to = std::bit_cast<Function>(found);
    if (found == nullptr && problem_.empty()) {
      problem_ = fmt::format("{} has no {}; a newer rdma-core has", name_, symbol);
    }
  }

  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  const char* name_;
  void* handle_;  // never closed
  std::string problem_;
};

struct LoadedVerbs {
  VerbsLibrary library;
  std::string problem;

  LoadedVerbs() {
    Loader loader{"libibverbs.so.1"};
    loader.take(library.get_device_list, "ibv_get_device_list");
    loader.take(library.free_device_list, "ibv_free_device_list");
    loader.take(library.get_device_name, "ibv_get_device_name");
    loader.take(library.get_device_guid, "ibv_get_device_guid");
    loader.take(library.open_device, "ibv_open_device");
    loader.take(library.close_device, "ibv_close_device");
    loader.take(library.query_device, "ibv_query_device");
    loader.take(library.query_gid, "ibv_query_gid");
    loader.take(library.query_pkey, "ibv_query_pkey");
    loader.take(library.get_async_event, "ibv_get_async_event");
    loader.take(library.ack_async_event, "ibv_ack_async_event");
    take_memory_and_cqs(loader);
    loader.take(library.create_srq, "ibv_create_srq");
    loader.take(library.modify_srq, "ibv_modify_srq");
    loader.take(library.query_srq, "ibv_query_srq");
    loader.take(library.destroy_srq, "ibv_destroy_srq");
    loader.take(library.create_qp, "ibv_create_qp");
    loader.take(library.modify_qp, "ibv_modify_qp");
    loader.take(library.query_qp, "ibv_query_qp");
    loader.take(library.destroy_qp, "ibv_destroy_qp");
    loader.take(library.create_ah, "ibv_create_ah");
    loader.take(library.destroy_ah, "ibv_destroy_ah");
    loader.take(library.attach_mcast, "ibv_attach_mcast");
    loader.take(library.detach_mcast, "ibv_detach_mcast");
    problem = loader.problem();
  }

  void take_memory_and_cqs(Loader& loader) {
    loader.take(library.alloc_pd, "ibv_alloc_pd");
    loader.take(library.dealloc_pd, "ibv_dealloc_pd");
    loader.take(library.reg_mr, "ibv_reg_mr");
    loader.take(library.reg_mr_iova, "ibv_reg_mr_iova");
    loader.take(library.dereg_mr, "ibv_dereg_mr");
    loader.take(library.create_comp_channel, "ibv_create_comp_channel");
    loader.take(library.destroy_comp_channel, "ibv_destroy_comp_channel");
    loader.take(library.create_cq, "ibv_create_cq");
    loader.take(library.resize_cq, "ibv_resize_cq");
    loader.take(library.destroy_cq, "ibv_destroy_cq");
    loader.take(library.get_cq_event, "ibv_get_cq_event");
    loader.take(library.ack_cq_events, "ibv_ack_cq_events");
  }
};

struct LoadedRdmaCm {
  RdmaCmLibrary library;
  std::string problem;

  LoadedRdmaCm() {
    Loader loader{"librdmacm.so.1"};
    loader.take(library.create_event_channel, "rdma_create_event_channel");
    loader.take(library.destroy_event_channel, "rdma_destroy_event_channel");
    loader.take(library.create_id, "rdma_create_id");
    loader.take(library.destroy_id, "rdma_destroy_id");
    loader.take(library.bind_addr, "rdma_bind_addr");
    loader.take(library.listen, "rdma_listen");
    loader.take(library.resolve_addr, "rdma_resolve_addr");
    loader.take(library.resolve_route, "rdma_resolve_route");
    loader.take(library.connect, "rdma_connect");
    loader.take(library.establish, "rdma_establish");
    loader.take(library.accept, "rdma_accept");
    loader.take(library.reject, "rdma_reject");
    loader.take(library.disconnect, "rdma_disconnect");
    loader.take(library.notify, "rdma_notify");
    loader.take(library.init_qp_attr, "rdma_init_qp_attr");
    loader.take(library.get_cm_event, "rdma_get_cm_event");
    loader.take(library.ack_cm_event, "rdma_ack_cm_event");
    loader.take(library.get_src_port, "rdma_get_src_port");
    loader.take(library.set_option, "rdma_set_option");
    problem = loader.problem();
  }
};

template <class Loaded>
auto load() -> Result<decltype(&std::as_const(std::declval<Loaded&>()).library)> {
  static const Loaded loaded;
  if (!loaded.problem.empty()) {
    return fail(ErrorCode::NotFound, "{}", loaded.problem);
  }
  return &loaded.library;
}

/// Of the error numbers that these libraries give, which kind of failure each is.
constexpr auto kCodes = std::to_array<ErrorCode>({ErrorCode::InvalidArgument,
                                                  ErrorCode::OutOfMemory,
                                                  ErrorCode::Busy,
                                                  ErrorCode::NotSupported,
                                                  ErrorCode::NoSuchDevice,
                                                  ErrorCode::NotFound,
                                                  ErrorCode::TryAgain,
                                                  ErrorCode::PermissionDenied,
                                                  ErrorCode::TimedOut,
                                                  ErrorCode::Refused,
                                                  ErrorCode::Exists,
                                                  ErrorCode::BadAddress,
                                                  ErrorCode::AlreadyConnected,
                                                  ErrorCode::AddressInUse,
                                                  ErrorCode::AddressNotAvailable,
                                                  ErrorCode::NetworkUnreachable,
                                                  ErrorCode::NotImplemented,
                                                  ErrorCode::NoBufferSpace,
                                                  ErrorCode::Cancelled,
                                                  ErrorCode::Interrupted,
                                                  ErrorCode::ShutDown});

}  // namespace

Result<const VerbsLibrary*> load_verbs() { return load<LoadedVerbs>(); }

Result<const RdmaCmLibrary*> load_rdmacm() { return load<LoadedRdmaCm>(); }

Result<std::vector<std::string>> device_names() {
  const auto library = load_verbs();
  if (!library) {
    return std::unexpected(library.error());
  }
  int count = 0;
  ibv_device** const devices = (*library)->get_device_list(&count);
  std::vector<std::string> names;
  for (int i = 0; devices != nullptr && i < count; ++i) {
    names.emplace_back((*library)->get_device_name(devices[i]));
  }
  if (devices != nullptr) {
    (*library)->free_device_list(devices);
  }
  return names;
}

Error library_error(int error_number, const char* call) {
  ErrorCode code = ErrorCode::Io;
  for (const ErrorCode one : kCodes) {
    if (os::error_number_of(one) == error_number) {
      code = one;
    }
  }
  std::array<char, 128> text{};
  return {code, fmt::format("{}: {}", call, strerror_r(error_number, text.data(), text.size()))};
}

Result<void> check_call(int returned, const char* call) {
  if (returned == 0) {
    return {};
  }
  // Some calls return the number, older ones -1; a few give it negative.
  const int number = returned > 0 ? returned : returned == -1 ? errno : -returned;
  return std::unexpected(library_error(number, call));
}

}  // namespace weft::verbs_driver
