// XRC domains, the SRQs of which are in srq.cc, and handles of target QPs. A domain is of one
// process: programs that open the same file each have a domain of their own.

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>
#include <vector>

#include "compat/ibverbs/objects.h"

namespace weft::compat {
namespace {

/// A domain that is open under the name of a file's inode, once or several times.
struct NamedDomain {
  hca::Hca* hca{};
  dev_t device{};
  ino_t inode{};
  hca::XrcDomain* engine{};
  std::uint32_t opens{};
};

std::mutex named_lock;
std::vector<NamedDomain> named;

std::mutex targets_lock;  // may be taken with a QP's lock held, so that nothing is done under it
std::vector<QpObject*> targets;

/// The domain of the file under the descriptor, made if the flags say so (ibv_open_xrcd(3)).
Result<hca::XrcDomain*> open_named(hca::Hca& hca, int fd, int oflags) {
  struct stat file{};
  if (fstat(fd, &file) != 0) {
    return fail(ErrorCode::InvalidArgument, "descriptor {} of an XRC domain is not open", fd);
  }
  const std::lock_guard guard{named_lock};
  const auto found = std::ranges::find_if(named, [&](const NamedDomain& domain) {
    return domain.hca == &hca && domain.device == file.st_dev && domain.inode == file.st_ino;
  });
  if (found != named.end()) {
    if ((oflags & O_EXCL) != 0) {
      return fail(ErrorCode::InvalidArgument,
                  "the file's XRC domain is open already, and O_EXCL asks for a new one");
    }
    ++found->opens;
    return found->engine;
  }
  if ((oflags & O_CREAT) == 0) {
    return fail(ErrorCode::TryAgain,
                "this process has no XRC domain of that file (those of other processes are out of "
                "reach); O_CREAT makes one");
  }
  auto engine = hca.open_xrc_domain();
  if (engine) {
    named.push_back(
        {.hca = &hca, .device = file.st_dev, .inode = file.st_ino, .engine = *engine, .opens = 1});
  }
  return engine;
}

/// True: nobody has it open any more.
[[nodiscard]] bool close_named(const hca::XrcDomain& engine) {
  const std::lock_guard guard{named_lock};
  const auto found = std::ranges::find(named, &engine, &NamedDomain::engine);
  if (found == named.end()) {
    return true;  // it has no name
  }
  if (--found->opens != 0) {
    return false;
  }
  named.erase(found);
  return true;
}

ibv_xrcd* open_xrcd(ibv_context* c, ibv_xrcd_init_attr* attributes) noexcept {
  Context& context = context_of(c);
  constexpr std::uint32_t kNeeded = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  if (!is_alive(context)) {
    refuse(EIO, "a child of fork() has none of its parent's objects");
    return nullptr;
  }
  if (attributes->comp_mask != kNeeded || (attributes->oflags & ~(O_CREAT | O_EXCL)) != 0) {
    refuse(EINVAL,
           "an XRC domain is opened with a descriptor (or -1) and the flags O_CREAT and O_EXCL");
    return nullptr;
  }
  const auto engine = attributes->fd == -1
                          ? context.engine->open_xrc_domain()
                          : open_named(*context.engine, attributes->fd, attributes->oflags);
  if (!engine) {
    refuse(engine.error());
    return nullptr;
  }
  auto object = std::make_unique<XrcDomainObject>();
  object->xrcd.context = c;
  object->engine = *engine;
  return &object.release()->xrcd;
}

int close_xrcd(ibv_xrcd* xrcd) noexcept {
  auto& object = object_of<XrcDomainObject>(xrcd);
  Context& context = context_of(xrcd->context);
  if (is_alive(context)) {
    if (object.uses.load() != 0) {
      return refuse(EBUSY, "XRC SRQs and target QPs of the domain still exist");
    }
    if (close_named(*object.engine)) {
      if (auto closed = context.engine->close_xrc_domain(*object.engine); !closed) {
        return refuse(closed.error());
      }
    }
  }
  delete &object;
  return 0;
}

[[nodiscard]] hca::Qp* find_target(std::uint32_t number, const hca::XrcDomain& domain) {
  const std::lock_guard guard{targets_lock};
  const auto found = std::ranges::find_if(targets, [&](const QpObject* target) {
    return is_alive(*target->context) && target->engine->number().value() == number &&
           target->xrcd->engine == &domain;
  });
  return found == targets.end() ? nullptr : (*found)->engine;
}

ibv_qp* open_qp(ibv_context* c, ibv_qp_open_attr* attributes) noexcept {
  constexpr std::uint32_t kNeeded =
      IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  constexpr std::uint32_t kKnown = kNeeded | IBV_QP_OPEN_ATTR_CONTEXT;
  if (!is_alive(context_of(c))) {
    refuse(EIO, "a child of fork() has none of its parent's objects");
    return nullptr;
  }
  if ((attributes->comp_mask & kNeeded) != kNeeded || (attributes->comp_mask & ~kKnown) != 0 ||
      attributes->qp_type != IBV_QPT_XRC_RECV || attributes->xrcd == nullptr ||
      attributes->xrcd->context != c) {
    refuse(EINVAL, "only an XRC target QP can be opened, by its number and XRC domain");
    return nullptr;
  }
  auto& domain = object_of<XrcDomainObject>(attributes->xrcd);
  hca::Qp* const engine = find_target(attributes->qp_num, *domain.engine);
  if (engine == nullptr) {
    refuse(EINVAL,
           "no target QP of that XRC domain has the number in this process; those of other "
           "processes cannot be opened");
    return nullptr;
  }
  auto object = make_object<QpObject>(nullptr);
  if (!object) {
    return nullptr;
  }
  ibv_qp& qp = object->qp.qp_base;
  const bool has_context = (attributes->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT) != 0;
  qp.qp_context = has_context ? attributes->qp_context : nullptr;
  qp.qp_type = attributes->qp_type;
  qp.state = static_cast<ibv_qp_state>(engine->query().state);
  init_qp_object(*object, c, *engine);
  add_target(*object, domain);
  return &object.release()->qp.qp_base;
}

}  // namespace

void add_target(QpObject& object, XrcDomainObject& domain) {
  ++domain.uses;
  object.xrcd = &domain;
  const std::lock_guard guard{targets_lock};
  targets.push_back(&object);
}

bool remove_target(QpObject& object) {
  const std::lock_guard guard{targets_lock};
  std::erase(targets, &object);
  return std::ranges::find(targets, object.engine, &QpObject::engine) == targets.end();
}

void push_to_targets(const hca::Qp& engine, AsyncEventRecord record) {
  const std::lock_guard guard{targets_lock};
  for (QpObject* const target : targets) {
    if (target->engine == &engine) {
      record.event.element.qp = &target->qp.qp_base;
      target->context->async_events.push(record);
    }
  }
}

void set_xrc_operations(verbs_context& verbs) {
  verbs.open_xrcd = open_xrcd;
  verbs.close_xrcd = close_xrcd;
  verbs.open_qp = open_qp;
}

}  // namespace weft::compat
