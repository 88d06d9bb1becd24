use crate::deep::Log;

pub struct Store {
    log: Box<Log>,
    items: Vec<Item>,
}

pub struct Item(Log);

pub enum Kind {
    One(Item),
}

pub trait Shape {
    fn area(&self) -> u8;

    fn twice(&self) -> u8 {
        self.area()
    }
}

impl Store {
    pub fn new() -> Self {
        todo!()
    }

    pub fn open() -> Result<Self, u8> {
        todo!()
    }

    pub fn save(&self) {
        self.log.write();
        for item in &self.items {
            item.go();
        }
    }
}

impl Item {
    fn go(&self) {
        self.0.write();
    }
}

fn first() {
    Store::new().save();
}

fn second() -> Result<(), u8> {
    let store = Store::open()?;
    store.save();
    Ok(())
}

fn third(kind: Kind) {
    match kind {
        Kind::One(one) => one.go(),
    }
}

fn fourth<T: Shape>(shape: T) {
    shape.twice();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> Store {
        Store::new()
    }

    #[test]
    fn saves() {
        assert_eq!((), made().save());
    }
}
