"""Words of the English-French grammar: forms, gender, and what goes with what.

One line is one reading. A word with several readings has several lines, in one table
or in different ones: *light* is a noun, an adjective and a verb. The last column names
the classes that a noun belongs to, or that a verb or adjective asks for; every noun is
also a class of its own, named by its English singular. Indented lines continue the line
before.
"""

import functools
from typing import NamedTuple

_NOUNS = """
man       men        | homme     hommes     m | person
woman     women      | femme     femmes     f | person
boy       boys       | garçon    garçons    m | person
girl      girls      | fille     filles     f | person
child     children   | enfant    enfants    m | person own
friend    friends    | ami       amis       m | person own
teacher   teachers   | professeur professeurs m | person own
sister    sisters    | sœur      sœurs      f | person own kin
brother   brothers   | frère     frères     m | person own kin
actress   actresses  | actrice   actrices   f | person artist
singer    singers    | chanteur  chanteurs  m | person artist
sailor    sailors    | marin     marins     m | person
cook      cooks      | cuisinier cuisiniers m | person
hero      heroes     | héros     héros      m | person
dog       dogs       | chien     chiens     m | animal own pet
cat       cats       | chat      chats      m | animal own pet
horse     horses     | cheval    chevaux    m | animal own pet
mouse     mice       | souris    souris     f | animal
bird      birds      | oiseau    oiseaux    m | animal own flyer
fly       flies      | mouche    mouches    f | flyer insect
apple     apples     | pomme     pommes     f | food goods own
cake      cakes      | gâteau    gâteaux    m | food goods own
egg       eggs       | œuf       œufs       m | food goods
orange    oranges    | orange    oranges    f | food goods
bread     -          | pain      -          m | dough mass own
soup      -          | soupe     -          f | dish mass own
water     -          | eau       -          f | drink mass
milk      -          | lait      -          m | drink mass
key       keys       | clé       clés       f | thing own
box       boxes      | boîte     boîtes     f | goods thing own lid
can       cans       | bidon     bidons     m | goods thing lid
hat       hats       | chapeau   chapeaux   m | goods thing own clothes
ring      rings      | bague     bagues     f | goods thing own clothes
watch     watches    | montre    montres    f | goods thing own clothes
saw       saws       | scie      scies      f | goods thing own tool
knife     knives     | couteau   couteaux   m | goods thing own tool
lead      leads      | laisse    laisses    f | goods thing own
flower    flowers    | fleur     fleurs     f | goods own plant
tree      trees      | arbre     arbres     m | plant tall
candle    candles    | bougie    bougies    f | goods thing fuel
match     matches    | allumette allumettes f | fuel stick
light     lights     | lumière   lumières   f | bright
hand      hands      | main      mains      f | side own
book      books      | livre     livres     m | goods thing own text
letter    letters    | lettre    lettres    f | thing own text
story     stories    | histoire  histoires  f | text tale
will      wills      | testament testaments m | text own
table     tables     | table     tables     f | goods furniture
bed       beds       | lit       lits       m | goods furniture own
door      doors      | porte     portes     f | lid part
window    windows    | fenêtre   fenêtres   f | lid part
house     houses     | maison    maisons    f | place building own
garden    gardens    | jardin    jardins    m | place goal own
school    schools    | école     écoles     f | place spot building goal own
station   stations   | gare      gares      f | place spot goal
park      parks      | parc      parcs      m | place goal
hotel     hotels     | hôtel     hôtels     m | place spot building goal
bank      banks      | banque    banques    f | place spot building goal
room      rooms      | chambre   chambres   f | place own
river     rivers     | rivière   rivières   f | water_ goal
well      wells      | puits     puits      m | water_
island    islands    | île       îles       f | water_
car       cars       | voiture   voitures   f | goods vehicle own
boat      boats      | bateau    bateaux    m | goods vehicle own ship
train     trains     | train     trains     m | vehicle public
match     matches    | match     matchs     m | show
play      plays      | pièce     pièces     f | show tale
bell      bells      | cloche    cloches    f | ringer
bank      banks      | rive      rives      f | edge
glass     glasses    | verre     verres     m | measure
kind      kinds      | sorte     sortes     f | sort
"""

# English base, -s, past, participle, -ing [+ particle] | French infinitive, je, il,
# ils, participle [imparfait: il, ils] [future: il, ils] [+ preposition] | flags |
# subject > object. A dash means that the grammar does not use the form.
_VERBS = """
see sees saw seen - | voir vois voit voient vu ~ verra verront
    | state passive | person animal > person animal thing place vehicle bright sort
watch watches watched watched watching | regarder regarde regarde regardent regardé
    | | person pet > person animal show train boat
look looks looked looked looking + at | regarder regarde regarde regardent regardé
    | | person pet > thing house plant bright insect
read reads - read reading | lire lis lit lisent lu ~ lira liront
    | passive | person > text
buy buys bought bought buying | acheter achète achète achètent acheté
    | passive | person > goods pet sort
find finds found found finding | trouver trouve trouve trouvent trouvé
    | passive | person > thing pet stick
hide hides hid hidden hiding | cacher cache cache cachent caché
    | passive | person > thing food text stick
wear wears wore worn wearing | porter porte porte portent porté
    | | person > clothes
carry carries carried carried carrying | porter porte porte portent porté
    | | person > thing table child
open opens opened opened opening | ouvrir ouvre ouvre ouvrent ouvert
    | passive | person > lid
close closes closed closed closing | fermer ferme ferme ferment fermé
    | passive | person > lid
eat eats ate eaten eating | manger mange mange mangent mangé ~ mangera mangeront
    | passive | person pet > food dough dish
drink drinks drank drunk drinking | boire bois boit boivent bu
    | | person pet > drink measure
love loves loved loved - | aimer aime aime aiment aimé aimait aimaient
    | state | person > person pet garden flower story sort bright
know knows - known - | connaître connais connaît connaissent connu
    | state | person > person tale hotel
clean cleans cleaned cleaned cleaning | nettoyer nettoie nettoie nettoient nettoyé
    | passive | person > house room school table tool lid vehicle
lead leads led led leading | mener mène mène mènent mené
    | guide | person > horse dog child sailor
light lights lit lit lighting | allumer allume allume allument allumé
    | passive | person > fuel
book books booked booked booking | réserver réserve réserve réservent réservé
    | passive | person > hotel room table
man mans manned manned manning | manœuvrer manœuvre manœuvre manœuvrent manœuvré
    | | sailor hero brother > ship
train trains trained trained training | entraîner entraîne entraîne entraînent entraîné
    | | person > pet singer
park parks parked parked parking | garer gare gare garent garé
    | | person > car
water waters watered watered watering | arroser arrose arrose arrosent arrosé
    | passive | person > plant garden
cook cooks cooked cooked cooking | cuisiner cuisine cuisine cuisinent cuisiné
    | | person > dish egg
leave leaves left left leaving | quitter quitte quitte quittent quitté
    | | person > place island train show
need needs needed needed - | avoir ai a ont eu avait avaient + besoin de
    | state | person > thing drink dough vehicle fuel tool
wait waits waited waited waiting + for | attendre attends attend attendent attendu
    | | person dog > person public letter
enter enters entered entered entering | entrer entre entre entrent entré + dans
    | être | person pet > place
have has had had - | avoir ai a ont eu avait avaient aura auront
    | state | person > goods pet thing kin
sleep sleeps slept slept sleeping | dormir dors dort dorment dormi
    | | person pet mouse >
sing sings sang sung singing | chanter chante chante chantent chanté
    | | person bird >
work works worked worked working | travailler travaille travaille travaillent travaillé
    | | person >
fly flies flew flown flying | voler vole vole volent volé
    | | flyer >
ring rings rang rung ringing | sonner sonne sonne sonnent sonné
    | | ringer >
get gets got - getting + up | se+lever lève lève lèvent levé
    | être | person >
leave leaves left left leaving | partir pars part partent parti ~ partira partiront
    | être depart | person public >
arrive arrives arrived arrived arriving | arriver arrive arrive arrivent arrivé
    | être spot | person public >
go goes went gone going | aller vais va vont allé
    | être motion | person pet >
come comes came come coming | venir viens vient viennent venu ~ viendra viendront
    | être source | person pet >
live lives lived lived - | habiter habite habite habitent habité habitait habitaient
    | state home | person >
give gives gave given giving | donner donne donne donnent donné ~ donnera donneront
    | ditransitive | person > thing food flower
show shows showed shown showing | montrer montre montre montrent montré
    | ditransitive | person > thing text room
say says said said - | dire dis dit disent dit
    | clausal | person >
think thinks thought thought - | penser pense pense pensent pensé
    | clausal state | person >
know knows knew known - | savoir sais sait savent su
    | clausal state | person >
"""

# English [comparative] | French m, f, m plural, f plural [m before a vowel] |
# before or after the noun | nouns it goes with
_ADJECTIVES = """
big bigger | grand grande grands grandes | before
    | animal thing furniture place vehicle part tall island
small smaller | petit petite petits petites | before
    | man woman boy girl child hero sailor animal thing furniture place vehicle food
    part island
old older | vieux vieille vieux vieilles vieil | before
    | man woman friend artist sailor cook hero teacher animal thing furniture
    building vehicle text well
new newer | nouveau nouvelle nouveaux nouvelles nouvel | before
    | goods place vehicle teacher text
young younger | jeune jeune jeunes jeunes | before | person animal
beautiful - | beau belle beaux belles bel | before
    | person horse bird flower place tree tale clothes island bright side
good - | bon bonne bons bonnes | before
    | food dough dish drink friend teacher singer cook text show
right - | bon bonne bons bonnes | before | key train house room door
right - | droit droite droits droites | after | side
left - | gauche gauche gauches gauches | after | side
black - | noir noire noirs noires | after | pet bird clothes furniture vehicle box lid
white - | blanc blanche blancs blanches | after
    | animal clothes furniture vehicle lid flower house
orange - | orange orange orange orange | after | clothes flower cat box
light lighter | léger légère légers légères | after | box can table hat boat lead
empty - | vide vide vides vides | after | building room box can train bed
open - | ouvert ouverte ouverts ouvertes | after | lid
clean cleaner | propre propre propres propres | after | clothes room tool side
wooden - | +bois | after | box table boat bed door
lead - | +plomb | after | box ring
lead - | principal principale principaux principales | after | artist
cold colder | froid froide froids froides | after | drink dish
hard harder | dur dure durs dures | after | dough bed egg
hard harder | difficile difficile difficiles difficiles | after | book play
kind kinder | gentil gentille gentils gentilles | after | person pet
close - | proche proche proches proches | after | friend
happy happier | heureux heureuse heureux heureuses | after | person pet
tired - | fatigué fatiguée fatigués fatiguées | after | person pet
rich richer | riche riche riches riches | after | person
famous - | célèbre célèbre célèbres célèbres | after | artist cook hero text hotel
"""

# What a noun of the class is followed by: *of the river*, *of water*, *of bird*.
COMPLEMENTS = {
    "edge": ("river",),
    "measure": ("drink",),
    "sort": ("bird", "flower", "cake", "boat", "tree", "dog"),
}
# First names, and whether each is a woman's.
NAMES = (("Anna", True), ("Paul", False), ("Claire", True), ("Thomas", False))

# A mute h lets the word before it elide, an aspirated one does not.
_ASPIRATED = ("hibou", "hiboux", "héros")
_VOWELS = "aàâeéèêëiîïoôuùûyœæh"


class Noun(NamedTuple):
    """A noun: its forms in both languages; no plurals for a mass noun."""

    english: str
    english_plural: str | None
    french: str
    french_plural: str | None
    feminine: bool
    classes: frozenset

    @property
    def is_mass(self):
        return self.english_plural is None


class Verb(NamedTuple):
    """A verb with the forms of both languages and the nouns it goes with.

    `present` holds the French forms for je, il, ils; `past` and `future` those for
    il and ils, or None where the grammar does not use the tense.
    """

    base: str
    third: str
    preterite: str | None
    participle: str | None
    gerund: str | None
    particle: str | None
    infinitive: str
    present: tuple
    french_participle: str
    past: tuple | None
    future: tuple | None
    prepositions: tuple
    flags: frozenset
    subjects: frozenset
    objects: frozenset

    @property
    def is_reflexive(self):
        return "se" in self.flags

    @property
    def takes_be(self):
        return "être" in self.flags


class Adjective(NamedTuple):
    """An adjective: `french` is (m, f, m plural, f plural) or a noun after `en`."""

    english: str
    comparative: str | None
    french: tuple
    before_vowel: str | None
    precedes: bool
    classes: frozenset

    @property
    def material(self):
        """The French noun of a material (`bois`), which follows `en`; or None."""
        return self.french[0][1:] if self.french[0][0] == "+" else None


def starts_with_vowel(word):
    """Says whether a French word lets the word before it elide."""
    return word[:1].lower() in _VOWELS and word.lower() not in _ASPIRATED


def inflect_participle(participle, feminine, plural):
    """Makes a French past participle agree: `lu`, `lue`, `lus`, `lues`."""
    ending = ("e" if feminine else "") + ("s" if plural else "")
    if ending == "s" and participle.endswith("s"):
        ending = ""
    return participle + ending


@functools.cache
def nouns(*classes):
    """The nouns of any of the classes, in the order of the table.

    Args:
        *classes: Names of classes; none of them means all nouns.

    Returns:
        Tuple of `Noun`.
    """
    return tuple(
        noun for noun in _noun_table() if not classes or noun.classes & set(classes)
    )


@functools.cache
def verbs(*flags, transitive=None):
    """The verbs that carry all of the flags, in the order of the table."""
    return tuple(
        verb
        for verb in _verb_table()
        if verb.flags >= set(flags)
        and (transitive is None or bool(verb.objects) == transitive)
    )


@functools.cache
def adjectives(noun):
    """The adjectives that go with a noun."""
    return tuple(each for each in _adjective_table() if each.classes & noun.classes)


def _rows(table):
    for line in table.strip().replace("\n    ", " ").splitlines():
        yield [column.strip() for column in line.split("|")]


@functools.cache
def _noun_table():
    table = []
    for english, french, classes in _rows(_NOUNS):
        singular, plural = english.split()
        french, french_plural, gender = french.split()
        table.append(
            Noun(
                singular,
                None if plural == "-" else plural,
                french,
                None if french_plural == "-" else french_plural,
                gender == "f",
                frozenset([*classes.split(), singular]),
            )
        )
    return tuple(table)


@functools.cache
def _verb_table():
    table = []
    for english, french, flags, frame in _rows(_VERBS):
        english, _, particle = english.partition(" + ")
        french, _, prepositions = french.partition(" + ")
        infinitive, first, third, plural, participle, *rest = french.split()
        reflexive, _, infinitive = infinitive.rpartition("+")
        subjects, _, objects = frame.partition(">")
        table.append(
            Verb(
                *(None if form == "-" else form for form in english.split()),
                particle or None,
                infinitive,
                (first, third, plural),
                participle,
                *_past_and_future(rest),
                tuple(prepositions.split()),
                frozenset(flags.split() + ([reflexive] if reflexive else [])),
                frozenset(subjects.split()),
                frozenset(objects.split()),
            )
        )
    return tuple(table)


def _past_and_future(forms):
    """Splits `[il, ils] [il, ils]`; a tilde alone stands for the missing past."""
    if forms[:1] == ["~"]:
        return None, tuple(forms[1:])
    return tuple(forms[:2]) or None, tuple(forms[2:]) or None


@functools.cache
def _adjective_table():
    table = []
    for english, french, place, classes in _rows(_ADJECTIVES):
        english, comparative = english.split()
        forms = french.split()
        table.append(
            Adjective(
                english,
                None if comparative == "-" else comparative,
                tuple(forms[:4]),
                forms[4] if len(forms) > 4 else None,
                place == "before",
                frozenset(classes.split()),
            )
        )
    return tuple(table)
