#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "core/sa/sa_user.h"
#include "kernel/device_face.h"
#include "kernel/host.h"
#include "kernel/sa_records.h"

/// A query that was not answered yet.
struct ib_sa_query {
  weft::core::SaUser* user{};
  std::optional<weft::core::SaQueryId> core_id;  // none: the call that asks has not returned
};

namespace weft::kernel {
namespace {

/// Queries by the numbers that callers have of them.
class Queries {
 public:
  int add(core::SaUser& user, ib_sa_query** told) {
    const std::lock_guard lock{mutex_};
    last_ = last_ == std::numeric_limits<int>::max() ? 1 : last_ + 1;
    auto query = std::make_unique<ib_sa_query>();
    query->user = &user;
    if (told != nullptr) {
      *told = query.get();
    }
    open_[last_] = std::move(query);
    return last_;
  }
  void set_core_id(int id, core::SaQueryId core_id) {
    const std::lock_guard lock{mutex_};
    if (const auto found = open_.find(id); found != open_.end()) {
      found->second->core_id = core_id;
    }
  }
  void remove(int id) {
    const std::lock_guard lock{mutex_};
    open_.erase(id);
  }
  /// None: they do not belong together, or it is over.
  [[nodiscard]] std::optional<ib_sa_query> find(int id, const ib_sa_query* query) {
    const std::lock_guard lock{mutex_};
    const auto found = open_.find(id);
    return found != open_.end() && found->second.get() == query ? std::optional{*found->second}
                                                                : std::nullopt;
  }

 private:
  std::mutex mutex_;
  int last_{};
  std::map<int, std::unique_ptr<ib_sa_query>> open_;
};

Queries& queries() {
  static Queries made;
  return made;
}

[[nodiscard]] Result<core::SaUser*> user_of(const ib_sa_client* client) {
  if (client == nullptr || client->weft == nullptr) {
    return fail(ErrorCode::NoSuchDevice,
                "no SA client: ib_sa_register_client() comes first, and the host's devices have "
                "to let their users send MADs");
  }
  return static_cast<core::SaUser*>(client->weft);
}

/// `start(user, ask, handler)` asks; the C callback is called with the answer.
template <class Record, class CRecord, class Start>
int begin(ib_sa_client* client, ib_device* device, std::uint8_t port, unsigned long timeout_ms,
          void (*callback)(int status, CRecord* resp, void* context), void* context,
          ib_sa_query** told, Start start) {
  const auto user = user_of(client);
  if (!user) {
    return refuse(user.error());
  }
  const int id = queries().add(**user, told);
  const core::SaAsk ask{.device = core_of(*device),
                        .port = PortNumber{port},
                        .timeout = Duration::milliseconds(static_cast<std::int64_t>(timeout_ms))};
  const Result<core::SaQueryId> begun =
      start(**user, ask, [id, callback, context](const Result<Record>& record) {
        queries().remove(id);
        if (record) {
          CRecord response = to_c(*record);
          callback(0, &response, context);
        } else {
          callback(refuse(record.error()), nullptr, context);
        }
      });
  if (!begun) {
    queries().remove(id);
    return refuse(begun.error());
  }
  queries().set_core_id(id, *begun);
  return id;
}

}  // namespace
}  // namespace weft::kernel

void ib_sa_register_client(ib_sa_client* client) {
  const auto host = weft::kernel::host();
  client->weft = host && host->sa != nullptr
                     ? std::make_unique<weft::core::SaUser>(*host->sa).release()
                     : nullptr;
}

void ib_sa_unregister_client(ib_sa_client* client) {
  const std::unique_ptr<weft::core::SaUser> gone{static_cast<weft::core::SaUser*>(client->weft)};
  client->weft = nullptr;
}

void ib_sa_cancel_query(int id, ib_sa_query* query) {
  if (const auto found = weft::kernel::queries().find(id, query); found && found->core_id) {
    found->user->cancel(*found->core_id);
  }
}

int ib_sa_path_rec_get(ib_sa_client* client, ib_device* device, std::uint8_t port_num,
                       sa_path_rec* rec, ib_sa_comp_mask comp_mask, unsigned long timeout_ms,
                       gfp_t /*gfp_mask*/,
                       void (*callback)(int status, sa_path_rec* resp, void* context),
                       void* context, ib_sa_query** sa_query) {
  using weft::wire::PathRecord;
  return weft::kernel::begin<PathRecord>(
      client, device, port_num, timeout_ms, callback, context, sa_query,
      [&](weft::core::SaUser& user, const weft::core::SaAsk& ask, auto handler) {
        return user.get_path(ask, weft::kernel::path_of(*rec), comp_mask, std::move(handler));
      });
}

int ib_sa_service_rec_query(ib_sa_client* client, ib_device* device, std::uint8_t port_num,
                            std::uint8_t method, ib_sa_service_rec* rec, ib_sa_comp_mask comp_mask,
                            unsigned long timeout_ms, gfp_t /*gfp_mask*/,
                            void (*callback)(int status, ib_sa_service_rec* resp, void* context),
                            void* context, ib_sa_query** sa_query) {
  using weft::wire::ServiceRecord;
  return weft::kernel::begin<ServiceRecord>(
      client, device, port_num, timeout_ms, callback, context, sa_query,
      [&](weft::core::SaUser& user, const weft::core::SaAsk& ask, auto handler) {
        return user.query_service(ask, static_cast<weft::wire::MadMethod>(method),
                                  weft::kernel::service_of(*rec), comp_mask, std::move(handler));
      });
}
